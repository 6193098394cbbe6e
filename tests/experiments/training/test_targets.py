"""Targets of a trained encoder–decoder, from the folder of its record."""

from pathlib import Path

import numpy as np
import pytest

from leadline.experiments.config.data import TransductionData
from leadline.experiments.config.measure import Measure
from leadline.experiments.config.model import Encoder
from leadline.experiments.config.position_bias import T5
from leadline.experiments.data.transduction import BEGIN, END, source_ids
from leadline.experiments.runs.forward import applied
from leadline.experiments.runs.model import Model
from leadline.experiments.training.saved import Saved, open_saved
from leadline.experiments.training.targets import transduced
from tests.experiments.called import Called
from tests.experiments.training.runs import changed, run

pytestmark = [pytest.mark.usefixtures("in_use"), pytest.mark.slow]
DATA = TransductionData(task="reverse", size=4, symbols=5)
SOURCES = ("0 1 2", "4 3 3 1", "2")


@pytest.fixture(scope="module")
def folder(in_use: None, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001
    """Two layers of each stack, which share a bias."""
    results, position = tmp_path_factory.mktemp("targets") / "results", T5(buckets=4, furthest=3, shared=True)
    arm = changed("t5", model={"layers": 2, "encoder": Encoder(layers=2), "position": position, "scaled_embedding": True})
    run(results, [arm.model_copy(update={"data": DATA, "measure": Measure(every=3, windows=6)})], (0,))
    (folder,) = results.glob("*/t5-*/s0")
    return folder


@pytest.fixture(scope="module")
def saved(folder: Path) -> Saved:
    return open_saved(folder)


def forced(saved: Saved, source: str, target: tuple[int, ...]) -> np.ndarray:
    """Log-probabilities [T, V] of what follows BEGIN and each id of the target, in one pass."""
    half = DATA.half(DATA.size)
    rows = np.zeros((1, 2 * half), np.int32)
    for at, ids in ((0, [BEGIN, *source_ids(source, DATA), END]), (half, [BEGIN, *target])):
        rows[0, at : at + len(ids)] = ids
    logits = applied(saved, rows)[0][0, half:][: len(target) + 1].astype(np.float64)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def test_greedy_targets_are_what_the_model_finds_likeliest(saved: Saved) -> None:
    """In one batch of sources of several lengths, and their log-probability is that of one pass over the target."""
    for source, (target,) in zip(SOURCES, transduced(saved, SOURCES), strict=True):
        each = forced(saved, source, target.ids[: DATA.size])
        following = [*target.ids, END][: len(each)]
        np.testing.assert_array_equal(each[:, 1:].argmax(axis=1) + 1, following)
        expected = each[np.arange(len(each)), following].sum()
        assert target.log_probability == pytest.approx(expected, rel=1e-4)
        assert target.score == pytest.approx(expected / ((5 + len(following)) / 6) ** 0.6, rel=1e-4)


def test_more_beams_find_targets_that_are_no_worse(saved: Saved) -> None:
    ((greedy,),) = transduced(saved, SOURCES[:1], length_penalty=0.0)
    (several,) = transduced(saved, SOURCES[:1], beams=4, length_penalty=0.0)
    scores = [target.score for target in several]
    assert scores == sorted(scores, reverse=True)
    assert len({target.ids for target in several if target.ended}) == sum(target.ended for target in several)
    assert several[0].score >= greedy.score - 1e-5
    assert Model(saved).transduce(SOURCES[0], beams=4, length_penalty=0.0) == several


def test_the_command_line_writes_the_best_target(saved: Saved, folder: Path, called: Called) -> None:
    (best, *others), _ = transduced(saved, SOURCES[:2], beams=2)
    words = ("generate", folder, "--beams", "2", "--prompt")
    assert called.text(*words, SOURCES[0]) == best.text + "\n"
    entry, _ = called.json(*words, SOURCES[0], "--prompt", SOURCES[1])["texts"]
    assert (entry["text"], entry["ids"]) == (best.text, list(best.ids))
    assert [target["text"] for target in entry["beams"]] == [best.text, *(target.text for target in others)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--prompt", "0 5"), "'5' is in no source of the task 'reverse'; valid here: 0, 1, 2, 3, 4"),
        (("--prompt", " "), "the source is empty: give '1', say"),
        (("--prompt", "0", "--top-k", "3", "--seed", "1"), "--top-k, --seed: t5 is an encoder–decoder"),
    ],
)
def test_what_cannot_be_searched_is_said(folder: Path, called: Called, words: tuple[str, ...], message: str) -> None:
    assert message in called.mistake("generate", folder, *words)
