"""Contestants do what they say, at toy size: all have equal values, and they count the programs that they compile."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from leadline.experiments.bench.cases import attention, evaluation, mechanisms, parts, step, sweep, tokenization
from leadline.experiments.bench.compilations import Compilations
from leadline.experiments.bench.peers import jax_attention, tokenizer_libraries
from leadline.experiments.bench.worker import SCRATCH, Prepared
from leadline.experiments.bench.workloads.llama import Size, config, projection_flops, step_flops, structure
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.to_model import decoder_config
from leadline.model.mesh import make_mesh

pytestmark = pytest.mark.usefixtures("in_use")

SIZE = Size(layers=1, width=16, heads=2, hidden=32, vocabulary=16, length=8, batch=2)
CORPUS = {"vocabulary": 400, "size": 600_000}


@pytest.fixture(autouse=True, scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The folder of a contest. Contestants may not choose their devices, since this process has them already."""
    update = jax.config.update
    fixed = ("jax_num_cpu_devices", "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SCRATCH, str(tmp_path_factory.mktemp("scratch")))
        patch.setattr(jax.config, "update", lambda name, value: None if name in fixed else update(name, value))
        yield
    jax.monitoring.clear_event_listeners()


def _facts(prepared: Prepared) -> dict[str, Any]:
    result = prepared.work()
    return {**prepared.facts, **(prepared.more(result) if prepared.more else {})}


def test_arms_of_the_sweep_differ_in_values_only() -> None:
    arms = sweep.kinds(SIZE)
    assert len(arms) == 12
    assert {decoder_config(arm.model, SIZE.vocabulary, SIZE.length) for arm in arms} == {structure(SIZE, "float32")}


def test_tables_are_values_of_a_program_a_length(monkeypatch: pytest.MonkeyPatch) -> None:
    six_tables = evaluation.six_tables
    monkeypatch.setattr(evaluation, "six_tables", lambda *shape: six_tables(*shape)[-2:])  # every program takes a second
    settings = (SIZE, (16,), 32, False)
    ours, theirs = (_facts(prepare(*settings)) for prepare in (evaluation.tables_as_values, evaluation.tables_compiled_in))
    assert (ours["programs"], theirs["programs"]) == (1, 2)
    assert ours["compilations"] >= 1
    np.testing.assert_allclose(ours["value"], theirs["value"], rtol=1e-5)


@pytest.mark.slow
def test_a_mechanism_changes_the_model_and_the_step() -> None:
    """The losses of the fourth step differ, after weights have been trained."""
    plain, mechanism = config(SIZE, "float32"), mechanisms.CHANGES
    assert all(ModelConfig.model_validate({**plain.model_dump(), **changes}) != plain for changes in mechanism.values())
    losses = [mechanisms.with_mechanism(SIZE, "float32", changes).work() for changes in ({}, mechanism["a headwise gate"])]
    assert np.all(np.isfinite(losses))
    assert losses[0] != losses[1]


def test_a_window_and_initial_tokens_change_the_gradient() -> None:
    masks = ((None, 0), (3, 0), (3, 1))
    gradients = [attention.windowed(1, 8, 2, "float32", *mask).work() for mask in masks]
    assert len({float(np.abs(np.asarray(q)).sum()) for q, _, _ in gradients}) == 3


@pytest.mark.parametrize(
    ("ours", "theirs", "settings"),
    [
        (attention.prepare, jax_attention.prepare, (2, 9, 2, "float32")),
        (attention.received, jax_attention.prepare_received, (9, 2)),
    ],
)
def test_attention_is_that_of_others(ours: Any, theirs: Any, settings: tuple[Any, ...]) -> None:
    """The value is a sum of squares, which tells neither signs nor places: the arrays themselves are compared too."""
    attending, reference = ours(*settings), theirs(*settings)
    assert attending.facts["value"] == pytest.approx(reference.facts["value"], rel=1e-5)
    for our, their in zip(jax.tree.leaves(attending.work()), jax.tree.leaves(reference.work()), strict=True):
        np.testing.assert_allclose(np.ravel(our), np.ravel(their), atol=1e-5, equal_nan=False)


def test_parts_have_the_products_of_a_step() -> None:
    prepared = [part(SIZE, "float32") for part in (parts.projections, parts.attentions, parts.loss)]
    assert sum(part.facts["flops"] for part in prepared) == pytest.approx(step_flops(SIZE))
    with jax.set_mesh(make_mesh()):
        projections = parts.projection_calls(SIZE, "float32")
        gradients = [parts.weight_gradient_calls(SIZE, "float32", plain=plain) for plain in (False, True)]
    computed = [_computed(calls) for calls in (projections, parts.product_calls(SIZE, "float32"), *gradients)]
    assert computed == [projection_flops(SIZE), projection_flops(SIZE), projection_flops(SIZE) / 3, projection_flops(SIZE) / 3]
    for part in (*prepared, parts.products(SIZE, "float32"), parts.update(SIZE)):
        part.work()


@pytest.mark.parametrize(("length", "scores"), [(8, 8 * 8), (200, 64 * (64 + 128 + 192) + 8 * 200), (1030, 6 * 512 * 512)])
def test_products_of_attention_are_those_of_its_blocks(length: int, scores: int) -> None:
    size = replace(SIZE, length=length)
    heads, channels = size.batch * size.heads, size.head_dim
    assert _computed(parts.attention_product_calls(size, "float32")) == 6 * 2 * channels * heads * scores
    parts.attention_products(size, "float32").work()


def _computed(calls: list[parts.Call]) -> float:
    """The FLOPs of programs, by XLA."""
    return sum(count * program.cost_analysis()["flops"] for program, _, count in calls)  # pyright: ignore[reportFunctionMemberAccess]


def test_a_step_is_one_program_counted_from_the_beginning() -> None:
    assert _facts(step.compilation(SIZE, on_disk=False))["programs"] == 1
    counted = Compilations()
    for size in (3, 4):
        jax.jit(lambda x: x + x)(np.ones(size, np.float32))
    assert counted.programs == 2
    counted.begin()
    assert counted.facts() == {"programs": 0, "compile_seconds": 0.0}


def test_a_batch_is_made_often() -> None:
    prepared = step.batch(SIZE)
    assert prepared.work() is None
    assert prepared.often


def test_texts_are_as_large_as_wanted() -> None:
    sizes = [len(document.text) for document in tokenization.documents(CORPUS["size"])]
    assert sum(sizes[:-1]) < CORPUS["size"] <= sum(sizes)
    assert tokenization.pieces(["abc", "a", "bcd", "efg"], 2, 2) == ["ab", "bc"]


@pytest.mark.parametrize("name", ["train", "encode_corpus"])
def test_the_library_gives_the_same_merges_and_ids(name: str) -> None:
    ours, theirs = (_facts(getattr(module, name)(**CORPUS)) for module in (tokenization, tokenizer_libraries))
    assert ours["value"] == theirs["value"] > 0


@pytest.mark.parametrize(("kind", "library"), [("BPE", "encode_ranks"), ("unigram", "encode_sentencepiece")])
def test_single_texts_have_as_many_ids_in_every_form(kind: str, library: str) -> None:
    settings = {**CORPUS, "length": 100, "count": 4}
    forms = [tokenization.encode(kind, **settings, transparent=transparent) for transparent in (False, True)]
    forms += [tokenizer_libraries.encode(kind, **settings), getattr(tokenizer_libraries, library)(**settings)]
    assert len({_facts(form)["value"] for form in forms}) == 1
