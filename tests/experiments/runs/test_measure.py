"""Trained runs measured again, on other text and by other tables."""

from pathlib import Path

import jax
import numpy as np
import pytest

from leadline.experiments.config.data import TextData
from leadline.experiments.config.measure import FrequencyMeasure
from leadline.experiments.config.tokenizer import Bpe
from leadline.experiments.data.source import open_source
from leadline.experiments.measure.evaluate import as_rows
from leadline.experiments.measure.kinds.curves import curve_of
from leadline.experiments.records.measurement import Measurement
from leadline.experiments.runs.folders import cache_of, run_folder
from leadline.experiments.runs.measure import measured
from leadline.experiments.runs.opened import open_run
from leadline.experiments.runtime.errors import UserError
from tests.experiments.data.corpora import write_corpus
from tests.experiments.training.runs import LENGTH, SOFTMAX, Watched, changed, run

pytestmark = pytest.mark.usefixtures("in_use")


@pytest.fixture(scope="module")
def results(in_use: None, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001
    """A run of the task, and one of text with a tokenizer that was trained on it."""
    results = tmp_path_factory.mktemp("measured") / "results"
    data = TextData(corpus=(str(corpus),), length=LENGTH, held_out=0.3, tokenizer=Bpe(vocabulary=300))
    text = changed("text", measure={"frequency": FrequencyMeasure(bins=2, windows=4)}).model_copy(update={"data": data})
    for arm in (SOFTMAX, text):
        run(results, [arm], (0,))
    return results


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text with other words, of which a tokenizer would be another one."""
    return write_corpus(tmp_path_factory.mktemp("other"), 20, lines=5, code=False, style=str.upper)


def numbers(results: Path, *words: str, arm: str = "text", corpus: tuple[str, ...] = ()) -> tuple[list[Measurement], list[str]]:
    """What is measured of a run, and what is noted."""
    progress = Watched()
    return measured(run_folder(results, arm), words, corpus, (), progress), progress.notes


def test_other_text_is_read_by_the_tokenizer_of_the_weights(results: Path, other: Path) -> None:
    run = open_run(results, arm="text")
    data = run.saved.arm.data.model_copy(update={"corpus": (str(other),)})
    source = open_source(data, cache_of(run.folder), tokenizer=run.tokenizer)
    ids = as_rows(np.asarray(curve_of(data).batches(source, run.saved.arm).tokens))
    losses = -np.take_along_axis(np.asarray(jax.nn.log_softmax(run.logits(ids[:, :-1]))), ids[:, 1:, None], axis=-1)
    entries, _ = numbers(results, f"data.corpus=['{other}']")
    (loss,) = (entry.value for entry in entries if entry.quantity == "loss" and not entry.dims)
    assert loss == pytest.approx(losses.mean(), rel=1e-4)


@pytest.mark.parametrize(
    ("arm", "words", "message"),
    [
        (
            "text",
            ("data.length=32",),
            "data.length=32: a trained model keeps the length of its data; leave it out, and give --leng",
        ),
        ("text", ("data.tokenizer.vocabulary=290",), "a trained model keeps the tokenizer of its data; leave it out"),
        (
            "softmax",
            ("data.kind=text", "data.length=16"),
            "data.kind=text data.length=16: a trained model keeps the kind of its",
        ),
        ("softmax", ("data.vocabulary=9",), "data.vocabulary=9: these data have 10 ids and the model 9; leave it out"),
    ],
)
def test_data_that_the_weights_were_not_trained_for_are_refused(
    results: Path, arm: str, words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UserError) as raised:
        numbers(results, *words, arm=arm)
    assert message in str(raised.value)


def test_what_needs_the_training_text_is_left_out_of_a_text_of_its_own(results: Path, corpus: Path, other: Path) -> None:
    entries, notes = numbers(results, corpus=(str(other),))
    assert "occurrences" not in {entry.quantity for entry in entries}
    assert [note for note in notes if note.startswith("[measure.frequency] is left out: ")] == notes != []
    entries, notes = numbers(results, f"data.corpus=['{corpus}']")
    assert "occurrences" in {entry.quantity for entry in entries} and notes == []
