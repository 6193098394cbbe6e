"""The claims of exact studies name settings that jobs have."""

from pathlib import Path

import pytest

from leadline.experiments.config.exact import Tokens
from leadline.experiments.config.load import load_studies
from leadline.experiments.measure.exact.registry import jobs_of

CONFIGS = Path(__file__).parents[4] / "configs"
EXACT = ["multilingual", "precision", "rope_base", "tokens"]


@pytest.mark.parametrize("name", EXACT)
def test_every_selector_matches_a_job(name: str) -> None:
    (study,) = load_studies(CONFIGS / f"{name}.toml")
    exact, selectors = study.exact, dict(study.selectors)
    assert exact is not None and selectors
    if isinstance(exact, Tokens):  # ranks are downloaded
        exact = exact.model_copy(update={"tokenizers": {"byte": "byte"}})
        del selectors["gpt2"], selectors["gpt4"]
    settings = [job.settings.model_dump(mode="json") for job in jobs_of(exact)]
    for selector in selectors.values():
        assert any(selector.items() <= job.items() for job in settings), selector
