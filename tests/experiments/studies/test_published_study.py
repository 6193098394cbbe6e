"""The study that `leadline measure` makes of a published model."""

from pathlib import Path

import pytest

from leadline.experiments.config.exact import PublishedStudy
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.studies.published_study import Wanted, default_tables, distinct_paths, planned_study, study_name
from leadline.experiments.studies.published_tables import TABLES, filled
from tests.experiments.published.tiny_llama import CONTEXT, tiny_llama


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_llama(tmp_path_factory.mktemp("published") / "tiny", max_position_embeddings=4 * CONTEXT))


def exact_of(wanted: Wanted) -> PublishedStudy:
    exact = planned_study(wanted).study.exact
    assert isinstance(exact, PublishedStudy)
    return exact


def test_lengths_are_within_the_context_and_repeated_ones_count_once() -> None:
    for context in (64, 256, 1024, 2048, 8192):
        tables = default_tables(context)
        assert max(tables["perplexity"]["lengths"]) == context
        assert tables["perplexity"]["last"] == min(64, context // 32)
        assert max(*tables["prompts"]["lengths"], tables["interventions"]["length"]) <= context
        assert tables["streaming"]["cache"] < tables["streaming"]["full_attention"] <= context
    assert default_tables(64, [32, 16, 32])["perplexity"]["lengths"] == [32, 16]


def test_by_default_all_is_measured_with_a_table_for_each(model: str) -> None:
    study, notes = planned_study(Wanted(model))
    assert not notes and [spec.name for spec in study.tables] == list(TABLES)
    assert all("tiny" in spec.title for spec in (*study.tables, *study.figures))
    assert {spec.name for spec in study.figures} == {"sinks_by_layer", "activations_by_layer", "streaming", "early_decoding"}
    assert study.study == "measured_tiny"


def test_only_what_is_named_is_measured(model: str) -> None:
    study, _ = planned_study(Wanted(model, only=["perplexity", "inputs", "inputs"], lengths=[16, 32]))
    assert [spec.name for spec in study.tables] == ["inputs", "perplexity"]
    assert study.command == "leadline measure tiny --only perplexity --only inputs --lengths 16,32"
    assert not exact_of(Wanted(model, only=["inputs"])).base_bound
    assert exact_of(Wanted(model, only=["base_bound"])).base_bound


def test_what_a_model_cannot_be_measured_by_is_left_out_unless_somebody_names_it(tmp_path: Path) -> None:
    small = str(tiny_llama(tmp_path / "small", max_position_embeddings=32))
    study, notes = planned_study(Wanted(small))
    assert {note.partition(" ")[0] for note in notes} == {"prompts", "streaming"}
    assert {"prompts", "streaming"}.isdisjoint(spec.name for spec in study.tables)
    with pytest.raises(UserError, match=r"measure.streaming.stride = 16 is not below"):
        planned_study(Wanted(small, only=["streaming"]))
    with pytest.raises(UserError, match="no room for a prompt"):
        planned_study(Wanted(small, words=["measure.prompts.rows=1"]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"only": ["strem"]}, "--only strem: unknown; did you mean 'streaming'"),
        ({"only": ["inputs"], "lengths": [16]}, "--lengths are those of perplexity, which --only inputs leaves out"),
        ({"only": ["inputs"], "words": ["measure.prompts.rows=3"]}, "--only inputs leaves prompts out; add it there"),
        ({"words": ["measure.inputs.sequnces=3"]}, "measure.inputs.sequnces: unknown key; did you mean 'sequences'"),
        ({"only": ["perplexity"], "words": ["measure.perplexity.last=999"]}, "last = 999 is more than the 8 tokens"),
    ],
)
def test_what_cannot_be_wanted_is_said(model: str, changes: dict[str, list[str]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        planned_study(Wanted(model)._replace(**changes))  # pyright: ignore[reportArgumentType]


def test_a_text_counts_once_and_is_in_the_name_of_the_study(tmp_path: Path) -> None:
    book = tmp_path / "my book.txt"
    texts = distinct_paths([str(book), str(tmp_path / "." / book.name), "hub:a/b"])
    assert texts == [str(book), "hub:a/b"]
    assert study_name("tiny", texts) == "measured_tiny_on_my-book+hub-a-b"


def test_a_text_that_is_a_name_alone_becomes_the_value() -> None:
    values = {"last": 64, "model": "tiny"}
    assert filled({"at": ["{last}"], "title": "{model}, {last}", "n": 1}, values) == {"at": [64], "title": "tiny, 64", "n": 1}
