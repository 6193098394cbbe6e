"""Contestants do what they say, at toy size: equal values of all, and the programs that they count."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from experiments.bench import (
    mechanisms,
    ours_attention,
    ours_compilation,
    ours_evaluation,
    ours_mechanisms,
    ours_pipeline,
    ours_sweep,
    ours_tokenization,
)
from experiments.bench.compilations import Compilations
from experiments.bench.llama import Size, structure
from experiments.bench.peers import jax_attention, tokenizer_libraries
from experiments.bench.texts import documents, pieces
from experiments.bench.worker import SCRATCH, Prepared
from experiments.build import decoder_config

pytestmark = pytest.mark.usefixtures("in_use")

SIZE = Size(layers=1, width=16, heads=2, hidden=32, vocabulary=16, length=8, batch=2)
JSON = SIZE.as_json()
CORPUS = 900_000


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder of a contest; and contestants may not choose their devices, as this process has them already."""
    monkeypatch.setenv(SCRATCH, str(tmp_path))
    update = jax.config.update
    kept = ("jax_num_cpu_devices", "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    monkeypatch.setattr(jax.config, "update", lambda name, value: None if name in kept else update(name, value))
    yield
    jax.monitoring.clear_event_listeners()


def _facts(prepared: Prepared) -> dict[str, Any]:
    done = prepared.work()
    return {**prepared.facts, **(prepared.more(done) if prepared.more else {})}


def test_arms_of_the_sweep_differ_in_values_only() -> None:
    arms = ours_sweep.kinds(SIZE)
    assert len(arms) == 12
    assert {decoder_config(arm.model, SIZE.vocabulary, SIZE.length) for arm in arms} == {structure(SIZE, "float32")}


def test_tables_are_values_of_a_program_a_length() -> None:
    settings = (JSON, (4, 16), 32, False)
    ours, theirs = (
        _facts(prepare(*settings)) for prepare in (ours_evaluation.tables_as_values, ours_evaluation.tables_compiled_in)
    )
    assert (ours["programs"], theirs["programs"]) == (2, 12)
    assert ours["compilations"] >= 2
    np.testing.assert_allclose(ours["value"], theirs["value"], rtol=1e-5)


@pytest.mark.parametrize("name", mechanisms.CHANGES)
def test_a_mechanism_changes_the_step(name: str) -> None:
    """The losses of the fourth step differ, whose weights have learned."""
    plain, changed = (ours_mechanisms.step(JSON, "float32", own).work() for own in ({}, mechanisms.CHANGES[name]))
    assert np.isfinite(changed)
    assert changed != plain


def test_a_window_changes_the_gradient_and_kept_tokens_do() -> None:
    found = [ours_mechanisms.gradient(8, 2, "float32", window, kept).work() for window, kept in ((None, 0), (3, 0), (3, 1))]
    assert len({float(np.abs(np.asarray(q)).sum()) for q, _, _ in found}) == 3


def test_attention_has_the_gradients_of_others() -> None:
    ours, theirs = (peer.prepare(2, 9, 2, "float32").work() for peer in (ours_attention, jax_attention))
    assert len(ours) == len(theirs) == 3
    for own, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-5, equal_nan=False)


def test_a_step_is_one_program() -> None:
    assert _facts(ours_compilation.prepare(JSON, on_disk=False))["programs"] == 1


def test_compilations_are_counted_anew() -> None:
    counted = Compilations()
    for size in (3, 4):
        jax.jit(lambda x: x + x)(np.ones(size, np.float32))
    assert counted.programs == 2
    counted.begin()
    assert counted.facts() == {"programs": 0, "compile_seconds": 0.0}


def test_a_batch() -> None:
    prepared = ours_pipeline.prepare(JSON)
    assert prepared.work() is None
    assert prepared.often


def test_texts() -> None:
    found = documents(CORPUS)
    assert sum(len(one.text) for one in found[:-1]) < CORPUS <= sum(len(one.text) for one in found)
    assert pieces(["abc", "a", "bcd", "efg"], 2, 2) == ["ab", "bc"]


@pytest.mark.parametrize("name", ["train", "encode_corpus"])
def test_the_library_gives_the_same_merges_and_ids(name: str) -> None:
    settings = {"vocabulary": 300, "size": CORPUS}
    ours, theirs = (_facts(getattr(module, name)(**settings)) for module in (ours_tokenization, tokenizer_libraries))
    assert ours["value"] == theirs["value"] > 0


def test_single_texts_have_as_many_ids_in_every_form() -> None:
    settings = {"vocabulary": 400, "size": CORPUS, "length": 100, "count": 4}
    bpe = [
        *(ours_tokenization.encode_bpe(**settings, transparent=transparent) for transparent in (False, True)),
        *(getattr(tokenizer_libraries, name)(**settings) for name in ("encode_bpe", "encode_ranks")),
    ]
    unigram = [
        *(ours_tokenization.encode_unigram(**settings, transparent=transparent) for transparent in (False, True)),
        *(getattr(tokenizer_libraries, name)(**settings) for name in ("encode_unigram", "encode_sentencepiece")),
    ]
    for forms in (bpe, unigram):
        assert len({_facts(one)["value"] for one in forms}) == 1
