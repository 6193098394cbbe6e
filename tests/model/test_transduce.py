"""Greedy and beam search against teacher forcing and against a search of all targets."""

import itertools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.model.encoder_decoder import EncoderDecoder, apply_model
from leadline.model.positions.frequencies import inverse_frequencies
from leadline.model.positions.tables import position_tables
from leadline.model.transduce import Beams, Search, beam_search
from tests.model.test_encoder_decoder import CONFIG, SOURCE, TABLES, S, V, weights

pytestmark = pytest.mark.usefixtures("quick_to_compile", "mesh")
PADDING, BEGIN, END = 0, 1, 2
SEARCH = Search(BEGIN, END, S)


@pytest.fixture(scope="module")
def p() -> EncoderDecoder:
    """The end is not too likely."""
    p = weights(CONFIG)
    return replace(p, embedding=p.embedding.at[END].multiply(0.3))


def forced(p: EncoderDecoder, source: Any, targets: np.ndarray, begin: int = BEGIN) -> np.ndarray:
    """Log-probabilities [B, T, V] of what follows `begin` and each token of the targets but the last, in one pass."""
    inputs = np.concatenate([np.full_like(targets[:, :1], begin), targets[:, :-1]], axis=1)
    rows = np.pad(np.concatenate([source, inputs], axis=1), [(0, 0), (0, S - inputs.shape[1])])
    logits, _ = jax.jit(apply_model, static_argnames="cfg")(p, jnp.asarray(rows), TABLES, CONFIG)
    return np.asarray(jax.nn.log_softmax(logits[:, S : S + inputs.shape[1]]))


def test_greedy_search_takes_the_most_likely_token_of_teacher_forcing(p: EncoderDecoder) -> None:
    targets = np.asarray(beam_search(p, SOURCE, TABLES, CONFIG, SEARCH, width=1).tokens[:, 0])
    likeliest = forced(p, SOURCE, targets)[:, :, 1:].argmax(axis=2) + 1  # padding is no token
    before_end = np.cumsum(targets == END, axis=1) - (targets == END) == 0
    np.testing.assert_array_equal(targets, np.where(before_end, likeliest, PADDING))
    assert before_end.sum() > len(targets)


@pytest.mark.parametrize("begin", [BEGIN, PADDING])  # T5 begins targets with padding
def test_a_beam_gives_the_log_probabilities_of_teacher_forcing(p: EncoderDecoder, begin: int) -> None:
    beams = beam_search(p, SOURCE, TABLES, CONFIG, Search(begin, END, S), width=3)
    for n in range(3):
        targets = np.asarray(beams.tokens[:, n])
        each = np.take_along_axis(forced(p, SOURCE, targets, begin), targets[..., None], axis=2)[..., 0]
        real = targets != PADDING
        np.testing.assert_allclose(beams.log_probability[:, n], np.where(real, each, 0).sum(axis=1), rtol=1e-4)
        np.testing.assert_array_equal(beams.length[:, n], real.sum(axis=1))
        np.testing.assert_array_equal(beams.ended[:, n], (targets == END).any(axis=1))


@pytest.mark.parametrize("alpha", [0.6, *(pytest.param(alpha, marks=pytest.mark.slow) for alpha in (0.0, 5.0))])
def test_a_beam_that_holds_all_hypotheses_finds_the_best_targets(p: EncoderDecoder, alpha: float) -> None:
    """Of at most three tokens; `alpha` moves the best from short to long."""
    tokens, others = 3, [token for token in range(1, V) if token != END]
    ended = [(*body, END) for n in range(tokens) for body in itertools.product(others, repeat=n)]
    targets = [*ended, *itertools.product(others, repeat=tokens)]
    padded = np.array([np.pad(target, (0, tokens - len(target))) for target in targets], np.int32)
    lengths = np.array([len(target) for target in targets])
    source = np.repeat(SOURCE[:1], len(padded), axis=0)
    each = np.take_along_axis(forced(p, source, padded), padded[..., None], axis=2)[..., 0]
    scores = np.where(padded != PADDING, each, 0).sum(axis=1) / ((5 + lengths) / 6) ** alpha
    best = np.argsort(-scores)[:5]
    width = len(others) ** 2 * 2
    beams: Beams = beam_search(p, SOURCE[:1], TABLES, CONFIG, Search(BEGIN, END, tokens), width=width, alpha=alpha)
    np.testing.assert_array_equal(beams.tokens[0, :5], padded[best])


def test_targets_that_end_with_padding_are_refused() -> None:
    with pytest.raises(ValueError, match="targets end with 0, which is padding"):
        beam_search(weights(), SOURCE, TABLES, CONFIG, Search(BEGIN, PADDING, 3), width=2)


def test_a_beam_decodes_keys_of_twice_the_channels() -> None:
    """Those of PoPE."""
    cfg = replace(CONFIG, block=replace(CONFIG.block, polar=True))
    tables = position_tables(4, 4, 8, inverse_frequencies=inverse_frequencies(16, 1e4))
    beams = beam_search(weights(cfg), SOURCE, tables, cfg, SEARCH, width=2)
    assert np.isfinite(np.asarray(beams.log_probability)).all()
