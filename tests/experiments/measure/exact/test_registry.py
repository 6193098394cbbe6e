"""What holds for the jobs of every kind of [exact]."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from leadline.experiments.config.exact import BaseBound, Exact, Multilingual, Precision, Tokens, WordPieceComparison
from leadline.experiments.config.study import FOLDER
from leadline.experiments.measure.exact.job import Computed, Job
from leadline.experiments.measure.exact.registry import jobs_of
from leadline.experiments.records.measurement import measurements_of
from leadline.experiments.records.quantities import QUANTITIES


def exact_of(kind: str, ranks: Path) -> Exact:
    """A tiny study of a kind."""
    tokenizers = {"byte": "byte", "toy": "tiktoken:toy"}
    wordpiece = WordPieceComparison(vocabularies=(220, 200), every=800)
    return {
        "base_bound": BaseBound(head_dims=(32, 128), lengths=(128, 64, 256)),
        "precision": Precision(lengths=(256, 64)),
        "tokens": Tokens(tokenizers=tokenizers, ranks=str(ranks), speed_documents=0, wordpiece=wordpiece),
        "multilingual": Multilingual(vocabularies=(640, 320), exponents=(0.0, 1.0)),
    }[kind]


KINDS = ("base_bound", "precision", "tokens", "multilingual")


def computed(jobs: list[Job]) -> dict[str, Computed]:
    """The results of jobs in their order, each with the points that it needs and no others."""
    results: dict[str, Computed] = {}
    for job in jobs:
        results[job.name] = job.compute({name: results[name].point for name in job.needs}, lambda done, steps: None)  # noqa: ARG005
    return results


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_is_an_arm_that_can_be_recorded(kind: str, ranks: Path) -> None:
    jobs = jobs_of(exact_of(kind, ranks))
    names = [job.name for job in jobs]
    assert len(set(names)) == len(names)
    assert all(FOLDER.fullmatch(job.name) and job.label and "_" not in job.label for job in jobs if kind != "tokens")
    settings = [(type(job.settings), job.settings.model_dump_json()) for job in jobs]
    assert len(set(settings)) == len(settings)
    for place, job in enumerate(jobs):
        assert set(job.needs) <= set(names[:place])
        assert type(job.settings).model_validate_json(job.settings.model_dump_json()) == job.settings


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_have_quantities_and_do_not_change(kind: str, ranks: Path) -> None:
    digests = {job.name: job.data_digest for job in jobs_of(exact_of(kind, ranks))}
    first, second = (computed(jobs_of(exact_of(kind, ranks))) for _ in range(2))
    for name, result in first.items():
        for key, array in result.point.items():
            assert array.ndim == len(QUANTITIES[key.quantity].axes), key
        numbers = measurements_of(result.point)
        assert numbers and all(number.value is not None for number in numbers)
        data = json.loads(json.dumps(result.data))
        assert data["name"] and data.get("digest") == digests[name]
        for key, array in result.point.items():
            np.testing.assert_array_equal(array, second[name].point[key])


@pytest.mark.parametrize("kind", ["tokens", "multilingual"])
def test_data_decide_the_digest(kind: str, ranks: Path, tmp_path: Path) -> None:
    (tmp_path / "eng.txt").write_text("all human beings\nare born free\n" * 9)
    exact = exact_of(kind, ranks)
    digests, others = (
        {job.name: job.data_digest for job in jobs_of(texts) if not job.name.startswith("wordpiece")}
        for texts in (exact, exact.model_copy(update={"texts": (str(tmp_path),)}))
    )
    assert all(re.fullmatch("[0-9a-f]{64}", digest or "") for digest in digests.values())
    assert digests.keys() == others.keys() and set(digests.values()).isdisjoint(others.values())
