"""Trained runs of every kind of data, opened by their folders."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.data import MixedData, RetrievalData, TextData
from leadline.experiments.config.position import Rope
from leadline.experiments.config.position_bias import Alibi
from leadline.experiments.config.scaling import DynamicNtk
from leadline.experiments.config.study import Arm
from leadline.experiments.records.measurement import reading
from leadline.experiments.runs.folders import cache_of
from leadline.experiments.runs.loaded import load
from leadline.experiments.runs.opened import Run, open_run
from leadline.experiments.runtime.errors import UserError
from leadline.model.generate import Policy
from tests.experiments.data.corpora import write_corpus
from tests.experiments.training.runs import LENGTH, SOFTMAX, changed, run

pytestmark = pytest.mark.usefixtures("in_use")
MIXED = pytest.param("mixed", marks=pytest.mark.slow)


def arms(corpus: Path) -> dict[str, Arm]:
    """A toy arm of each kind of data. The attention of two of them is more than products."""
    data = {
        "text": TextData(corpus=(str(corpus),), length=LENGTH, held_out=0.3),
        "retrieval": RetrievalData(tasks=("key_value",), length=LENGTH, keys=8, values=10, queries=2),
        "mixed": MixedData(corpus=(str(corpus),), length=LENGTH, held_out=0.3, keys=8),
    }
    models = {
        "retrieval": {"position": Rope(base=100.0, scaling=DynamicNtk(per="query"))},
        "mixed": {"position": Alibi(), "window": 5},
    }
    by_kind = {name: changed(name, model=models.get(name, {}), train={"batch": 4}) for name in data}
    return {name: arm.model_copy(update={"data": data[name]}) for name, arm in by_kind.items()} | {"backcopy": SOFTMAX}


@pytest.fixture(scope="module")
def results(in_use: None, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001
    results = tmp_path_factory.mktemp("opened") / "results"
    for kind, arm in arms(corpus).items():
        if kind != "mixed":
            run(results, [arm], (0,))
    return results


@pytest.fixture(scope="module")
def opened(results: Path, corpus: Path) -> Callable[[str], Run]:
    def of(kind: str) -> Run:
        arm, folder = arms(corpus)[kind], results
        if kind == "mixed":  # for slow cases alone
            folder = results.with_name("mixed")
            run(folder, [arm], (0,))
        return open_run(folder, arm=arm.name)

    return of


def held_out(run: Run, corpus: Path) -> np.ndarray:
    return run.held_out([corpus] if run.tokenizer is not None else None)


@pytest.mark.parametrize("kind", ["text", "backcopy", "retrieval", MIXED])
def test_logits_are_those_that_the_record_measured(kind: str, opened: Callable[[str], Run], corpus: Path) -> None:
    """The loss of the record, from the logits of its held-out sequences."""
    run = opened(kind)
    ids = held_out(run, corpus)
    scores = jax.nn.log_softmax(run.logits(ids[:, :-1]))
    losses = -np.take_along_axis(np.asarray(scores), ids[:, 1:, None], axis=-1)
    assert losses.shape == (run.saved.arm.measure.windows, LENGTH, 1)
    if kind != "retrieval":  # whose targets have weights
        (expected,) = (entry.value for entry in run.record.measurements if entry.reading == reading("loss"))
        assert losses.mean() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("kind", ["text", "backcopy"])
def test_sinks_are_those_of_the_record(kind: str, opened: Callable[[str], Run], corpus: Path) -> None:
    run = opened(kind)
    sinks, arrays = run.sinks(held_out(run, corpus)[:, :-1]), run.stored.arrays()
    for name, value in sinks._asdict().items():
        np.testing.assert_allclose(value, arrays[reading(name)], rtol=1e-4, atol=1e-5, err_msg=name)


def test_sinks_of_a_short_text_have_no_ratios_to_later_tokens(opened: Callable[[str], Run]) -> None:
    sinks = opened("retrieval").sinks([1, 2, 3])
    assert sinks.first_token_mass.shape == (1, 2)
    assert sinks.value_drain_ratio is sinks.residual_norm_ratio is None


@pytest.mark.parametrize("kind", ["backcopy", MIXED])
def test_a_map_has_the_masses_of_the_first_token(kind: str, opened: Callable[[str], Run], corpus: Path) -> None:
    run = opened(kind)
    ids = held_out(run, corpus)[0, :-1]
    masses = run.sinks(ids).first_token_mass[0]
    for head in range(2):
        shares = run.attention_map(ids, 0, head)
        assert not np.triu(shares, 1).any()
        np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
        assert shares[:, 0].mean() == pytest.approx(masses[head], rel=1e-4)


def test_ids_may_be_one_text_a_list_or_on_a_device(opened: Callable[[str], Run]) -> None:
    run = opened("backcopy")
    ids = run.held_out()[:2, :-1]
    whole = run.logits(ids)
    np.testing.assert_array_equal(run.logits(ids.tolist()), whole)
    np.testing.assert_array_equal(run.logits(jnp.asarray(ids)), whole)
    np.testing.assert_allclose(run.logits(ids[0]), whole[0], atol=1e-5)


def test_a_run_is_loaded_by_its_folder_as_a_model(results: Path, opened: Callable[[str], Run]) -> None:
    (folder,) = results.glob("*/softmax-*")
    np.testing.assert_array_equal(load(folder).logits([0, 1, 2]), opened("backcopy").logits([0, 1, 2]))


def test_texts_may_be_longer_than_those_of_training(opened: Callable[[str], Run]) -> None:
    assert opened("backcopy").logits(np.zeros((1, 3 * LENGTH), int)).shape == (1, 3 * LENGTH, 9)


@pytest.mark.parametrize("kind", ["text", MIXED])
def test_a_model_of_text_goes_on(kind: str, opened: Callable[[str], Run]) -> None:
    run = opened(kind)
    text = run.generate("Document 7 ", 12, temperature=0.0)
    assert text == run.generate("Document 7 ", 12, temperature=0.0)
    assert isinstance(run.generate("Document 7 ", 40, policy=Policy(window=8, initial_tokens=2)), str)
    assert run.encode("Doc").tolist() == list(run.tokenizer.encode("Doc")) if run.tokenizer else pytest.fail("no tokenizer")


def test_curves_are_columns_of_equal_length(opened: Callable[[str], Run]) -> None:
    curves = opened("backcopy").curves()
    assert curves["step"].tolist() == [0, 3, 6]
    assert {len(values) for values in curves.values()} == {3}
    assert {"loss", "bos_mass", "sink_rate"} <= set(curves)


def test_a_run_says_what_it_is(opened: Callable[[str], Run]) -> None:
    lines = repr(opened("backcopy")).splitlines()
    assert lines[0] == "Run sinks / Softmax, seed 0, step 6"
    assert "layers 1, heads 2, width 8, rope" in lines[1]
    assert "loss" in lines[3] and "bos_mass" in lines[3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run: run.logits([[0, 9]]), "ids 0 to 9: this model knows 0 to 8"),
        (lambda run: run.logits([-1, 2]), "ids -1 to 2"),
        (lambda run: run.logits([]), r"ids are integers \[T\] or \[B, T\], not float64 \[0\]"),
        (lambda run: run.attention_map([[0, 1], [1, 2]], 0, 0), r"attention_map is of one text, ids \[T\], not of 2"),
        (lambda run: run.attention_map([0, 1], 1, 0), "there are layers 0 to 0, heads 0 to 1"),
        (lambda run: run.generate("a"), "softmax has no tokenizer, as a model of a task of ids"),
        (lambda run: run.encode("a"), "softmax has no tokenizer, as a model of a task of ids"),
    ],
)
def test_what_a_run_cannot_do_is_said(opened: Callable[[str], Run], call: Callable[[Run], Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        call(opened("backcopy"))


def test_a_model_without_maps_says_so(opened: Callable[[str], Run]) -> None:
    run = opened("retrieval")
    assert np.isfinite(run.logits([0, 1, 2])).all()
    with pytest.raises(UserError, match="every query of this model rotates all keys anew"):
        run.attention_map([0, 1, 2], 0, 0)


def test_text_of_another_corpus_is_refused(opened: Callable[[str], Run], tmp_path: Path) -> None:
    run = opened("text")
    with pytest.raises(UserError, match=r"held_out\(corpus=\[…\]\) says where the corpus of the run lies"):
        run.held_out()
    other = write_corpus(tmp_path / "other", 21, lines=5, code=False)
    with pytest.raises(UserError, match="is not the text that the run was trained on"):
        run.held_out([other])


def test_runs_are_chosen_by_folder_or_by_arm_and_seed(results: Path) -> None:
    (folder,) = results.glob("*/softmax-*/s0")
    for place in (folder, folder.parent):
        assert open_run(place).folder == folder
    assert open_run(str(results / "sinks"), arm="softmax", seed=0).folder == folder


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({}, r"it holds 3 runs; name one by its folder, or by arm and seed:(\n  .*/s0){3}$"),
        ({"seed": 0}, "it holds 3 runs of seed 0"),
        ({"arm": "softmax", "seed": 3}, r"it holds no run of arm 'softmax', seed 3; name one .*:(\n  .*/s0){3}$"),
    ],
)
def test_several_runs_are_listed(results: Path, choice: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_run(results, **choice)


def test_a_folder_without_runs_is_named(results: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such folder"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(UserError, match="no trained run is in it"):
        open_run(tmp_path)
    (folder,) = results.glob("*/softmax-*/s0")
    copy = shutil.copytree(folder, tmp_path / "copy")
    shutil.rmtree(copy / "checkpoint")
    with pytest.raises(UserError, match="there is no checkpoint"):
        open_run(copy)


def test_the_cache_is_that_of_the_results_folder() -> None:
    assert cache_of(Path("/here/results/mine/arm-0/s0")) == Path("/here/results/.cache")
    assert cache_of(Path("/copied/s0")) == Path("/.cache")
