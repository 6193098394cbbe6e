"""Small cases of what is measured, worked out by hand, and what is said of impossible arguments."""

import math
import re
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.config.position_bias import Alibi
from leadline.experiments.measure import perplexity, sinks
from leadline.experiments.measure.bound import bound_report
from leadline.experiments.measure.exact.base_bound import fitted
from leadline.experiments.measure.exact.texts import Cost, cost, costs, gini, relative
from leadline.experiments.measure.exact.tokens import megabytes_per_second
from leadline.experiments.measure.exact.training import shares, unigram_bits
from leadline.experiments.measure.kinds import recall, retrieval
from leadline.experiments.measure.kinds.activations import effective_rank, near_zero_share
from leadline.experiments.measure.kinds.frequency import frequency_bins
from leadline.experiments.measure.kinds.text_curves import document_starts
from leadline.experiments.measure.kinds.vocabulary import bits_per_byte, rare_shares, token_sizes, unknown_share
from leadline.experiments.measure.layers import gate_mean, massive_activations, median_of_sizes
from leadline.experiments.measure.trained import early_decoding, gradient_norms
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.byte import ByteTokenizer
from tests.experiments.measure.kinds.toys import ROPE, arm

NAN, INF = math.nan, math.inf
EVEN, SURE, ODDS = jnp.log(jnp.array([[1, 1, 1, 1], [0, 0, 4, 0], [1, 3, 0, 0]], jnp.float32) / 4)[:, None, None]
PROSE, CODE = jnp.array([[0.9, 0.1, 0.5], [0.6, 0.0, 1.0]]), jnp.array([[0.2, 0.1, 0.5], [0.7, 0.8, 0.9]])
NAUGHT, ONES, THREE = jnp.zeros((1, 5, 2, 4)), jnp.ones((1, 5, 2, 4)), jnp.ones((1, 5, 3, 4))
ROTATION = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0].astype(np.float32)
BITS = np.full((1, 2), math.log(2))
EVIDENCE = np.array([[-1, 0, 1, 3], [-1, -1, 2, 0]])
PLACES = np.array([0.0, 0.2, 0.5, 1.0, NAN])
TARGETS = jnp.asarray([[1, 2, 3], [1, 2, 3], [1, 2, 3], [0, 2, 3]], jnp.int32)
SCORES = jnp.asarray(np.eye(4, dtype=np.float32)[[[1, 2, 3], [0, 2, 3], [1, 2, 0], [0, 2, 3]]] * 3 - 1)
ASKED = jnp.asarray([[0, 1, 1]] * 3 + [[1, 1, 1]], jnp.float32)  # the second row is wrong where nothing was asked
DECADES, SAMPLED = np.array([0, 10, 100, 1000]), np.array([3, 4, 50, 7])
HALF_OCTAVES = [2, 4, 5, 8, 11, 16, 22, 32, 45, 64, 90, 128, 181, 256, 362, 512, 724, 1024, 1448, 2048]


def reach(*accuracies: float) -> float:
    """Of a text of 10 tokens where a guess is right in one of four cases."""
    return recall.measured_reach(np.array(accuracies), 0.25, 10)


BY_HAND: dict[str, tuple[Callable[[], Any], Any]] = {
    "median of NaN": (
        lambda: median_of_sizes(jnp.array([[1, NAN, 3], [INF, 1, INF], [2, INF, 1]], jnp.float32)),
        [NAN, INF, 2],
    ),
    "a cosine with nothing": (lambda: sinks.key_cosines(NAUGHT, ONES, start=1)[1], [0, 0]),
    "a gate at the threshold": (lambda: gate_mean(jnp.full((1, 1, 1), 0.1) < 0.1), [0]),
    "a sink at the threshold": (lambda: sinks.sink_rate(jnp.array([[[4.0, 0, 0, 0]]]), token=1, epsilon=1.0), [0]),
    "the last token": (lambda: sinks.sink_rate(jnp.array([[[0, 0, 0, 0.5]]]), token=4, epsilon=0.49), [1]),
    # Of shares 1 and 0 one is above 0.3, and so is their mean.
    "mass on two keys of four": (
        lambda: sinks.mass_on(jnp.array([[[2, 1, 0.5, 0.5]]]), jnp.array([[True, False, True, False]])),
        [0.625],
    ),
    "the first token of a row and those after EOS": (
        lambda: document_starts(jnp.array([[1, 9, 9, 4]]), jnp.int32(9)),
        [[True, False, True, True]],
    ),
    "the indicator before the mean": (lambda: sinks.sink_rate(jnp.array([[[2, 0.0]], [[0, 0]]]), token=1, epsilon=0.3), [0.5]),
    "dormant heads": (lambda: sinks.dormant_share(PROSE, threshold=0.5), 3 / 6),  # what is at the threshold is not above it
    "heads dormant in one domain": (lambda: sinks.active_dormant_share(PROSE, CODE, threshold=0.5), 2 / 6),
    "heads dormant in both": (lambda: sinks.active_dormant_share(PROSE, PROSE, threshold=0.5), 0),
    "an even guess before a sure answer": (lambda: early_decoding(jnp.stack([EVEN, SURE]), jnp.asarray), [np.log(4), 0]),
    "an even guess before odds": (lambda: early_decoding(jnp.stack([EVEN, ODDS]), jnp.asarray), [0.75 * np.log(3), 0]),
    "an answer that is ruled out": (lambda: early_decoding(jnp.stack([SURE, EVEN]), jnp.asarray), [INF, 0]),
    "sums of bfloat16": (lambda: gradient_norms(jnp.ones((1, 512), jnp.bfloat16)) ** 2, [512]),  # bfloat16 stops at 256
    "losses that overflow": (lambda: perplexity.exponential(1e4), INF),
    "losses that are no numbers": (lambda: perplexity.exponential(NAN), NAN),
    "half-octaves of 16 places": (lambda: perplexity.position_edges(16), [0, 1, 2, 3, 4, 6, 8, 11, 16]),
    "half-octaves of 20 places": (lambda: perplexity.position_edges(20), [0, 1, 2, 3, 4, 6, 8, 11, 16, 20]),
    "sums of places, without groups 0 and 1": (
        lambda: perplexity.sums_by_place_without(np.array([1.0, 2, 5, 3]), SAMPLED, DECADES, np.array([1, 0, 0, 1]))[:3],
        [[6, 5, 0], [4, 0, 0], [2, 5, 0]],
    ),
    "bins by their size": (
        lambda: perplexity.mean_of_stream(np.array([[6.0, 5, 0]]), np.array([[3.0, 1, 0]]), np.array([[10.0, 90, 900]])),
        [(10 * 2 + 90 * 5) / 100],
    ),
    "sizes of bytes, specials and ids beyond": (lambda: token_sizes(ByteTokenizer(), 300), [1] * 256 + [0] * 44),
    "bits of a byte and of a token of two": (lambda: bits_per_byte(BITS.sum(1), np.array([3.0])), 2 / 3),
    "bits of an EOS, which has no byte": (lambda: bits_per_byte(BITS.sum(1), np.array([1.0])), 2),
    # Id 0 is seen ten times, id 1 nine times, id 2 never.
    "shares of rare ids": (lambda: rare_shares(np.array([10, 9, 0]), np.array([3, 1, 0])), [2 / 3, 0.25]),
    "a share of unknown ids": (lambda: unknown_share(np.array([1, 5, 1, 6], np.int32), 1), 0.5),
    "a vocabulary that knows all": (lambda: unknown_share(np.array([1, 5, 1, 6], np.int32), None), 0),
    "the rarest half first, of equal ids the lower": (lambda: frequency_bins(np.array([7, 0, 7, 2]), 2), [1, 0, 1, 0]),
    "bins of five ids": (lambda: frequency_bins(np.array([5, 4, 3, 2, 1]), 2), [1, 1, 0, 0, 0]),
    "the rank of an orthogonal matrix": (lambda: effective_rank(jnp.asarray(ROTATION)[None]), 6),
    "the rank of multiples of one vector": (lambda: effective_rank(jnp.outer(jnp.arange(5.0), jnp.arange(3.0))[None]), 1),
    "the rank of nothing": (lambda: effective_rank(jnp.zeros((2, 5, 3))), 0),
    # p = 3/4 and 1/4.
    "the rank of two directions": (lambda: effective_rank(jnp.diag(jnp.array([3.0, 1.0]))[None]), 4 / 3**0.75),
    "the rank of one text and of another": (lambda: effective_rank(jnp.stack([jnp.eye(4), jnp.ones((4, 4))])), 2.5),
    "units of half the scale": (lambda: near_zero_share(jnp.array([[[0.0, 5, 3, -4]]]), 0.85), 0.5),  # rms 3.54, bound 3.005
    "units that are all zero": (lambda: near_zero_share(jnp.array([[[0.0, 0], [0, 1]]]), 0.0), 0.75),
    "tokens that are hit": (lambda: retrieval.hits(SCORES, TARGETS), [[1, 1, 1], [0, 1, 1], [1, 1, 0], [1, 1, 1]]),
    "the lowest id of equal scores": (lambda: retrieval.hits(jnp.zeros((1, 2, 3)), TARGETS[:1, :2] - 1), [[1, 0]]),
    "all tokens of an answer": (lambda: retrieval.right_answers(retrieval.hits(SCORES, TARGETS), ASKED), [1, 1, 0, 1]),
    "depths of evidence": (lambda: retrieval.depths(EVIDENCE), [[NAN, 0, 0.25, 0.75], [NAN, NAN, 0.5, 0]]),
    "distances of evidence": (lambda: retrieval.distances(EVIDENCE), [[NAN, 1, 1, 0], [NAN, NAN, 0, 3]]),
    "shares and counts of bins": (
        lambda: retrieval.by_bin(np.array([True, False, True, True, True]), PLACES, np.linspace(0, 1, 5)),
        [[0.5, NAN, 1, 1], [2, 0, 1, 1]],
    ),
    "half-octaves of distance": (lambda: recall.distance_edges(2048), HALF_OCTAVES),
    "distances above the edge before": (lambda: recall.binned(np.arange(12.0)), [3, 7, 5, 6 + 7 + 8, 9 + 10 + 11, 0]),
    "accuracy of nothing": (lambda: perplexity.bin_means(np.array([3.0, 0.0]), np.array([4.0, 0.0])), [0.75, NAN]),
    "recall that never falls reaches all": (lambda: reach(0.9, 1.0, 1.0, 1.0, 1.0), 10),
    "half of what is above chance": (lambda: reach(1.0, 1.0, 0.7, 0.6, 0.3), 5),  # of 1, that is 0.625
    "recall that falls for a while": (lambda: reach(1.0, 1.0, 0.6, 1.0, 1.0), 4),
    "recall that is worse where it is nearer": (lambda: reach(0.3, 0.5, 0.9, 0.9, 0.3), 8),
    "recall of a distance without answers": (lambda: reach(1.0, NAN, 0.9, 0.3, 0.3), 5),
    "recall that falls behind a distance without answers": (lambda: reach(1.0, NAN, 0.3, 0.3, 0.3), 2),
    "recall that was not learned": (lambda: reach(0.26, 0.3, 0.2, 0.25, 0.3), 0),
    "equal costs": (lambda: gini({"a": 2.0, "b": 2.0}), 0),
    "unequal costs": (lambda: gini({"a": 1.0, "b": 3.0}), 0.25),  # |1 - 3| twice, over 2 * 2 * 4
    "bits of independent tokens": (lambda: unigram_bits(ByteTokenizer(), ["ab", "ac"]), 1.5),  # 1/2, 1/4, 1/4
    "shares of three languages": (lambda: shares(3, 2.0, 1.0), [4 / 7, 2 / 7, 1 / 7]),
    "even shares": (lambda: shares(3, 2.0, 0.0), [1 / 3] * 3),
    "shares of a root": (lambda: shares(2, 4.0, 0.5), [2 / 3, 1 / 3]),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name: str) -> None:
    measure, expected = BY_HAND[name]
    np.testing.assert_allclose(measure(), expected, rtol=1e-6, atol=1e-6)


FIVE = "in a text of 5 tokens"
AXES = "gradients of stacked layers have one leading axis in common, not"
ALIBI = arm("alibi", "text", ROPE.model_copy(update={"position": Alibi()}))
TWO: dict[str, Cost] = {"eng": Cost(1, 1, 1, 0), "mya": Cost(1, 1, 1, 0)}
WRONG: dict[str, Callable[[], Any]] = {
    f"start = 0 must be between 1 and 4 {FIVE}": lambda: sinks.key_cosines(ONES, ONES, start=0),
    f"start = 5 must be between 1 and 4 {FIVE}": lambda: sinks.key_cosines(ONES, ONES, start=5),
    f"start = 1 must be between 2 and 4 {FIVE}": lambda: sinks.logit_gap(ONES, ONES, scale=1.0, start=1),
    "3 query heads cannot share 2 key heads: it must divide them": lambda: sinks.key_cosines(THREE, ONES, start=1),
    "3 query heads cannot share 2 key heads": lambda: sinks.logit_gap(THREE, ONES, scale=1.0, start=2),
    "a text of one token has no keys beside the first": lambda: sinks.share_outside(ONES[:, :1]),
    "the share of energy, 0.0, is not between 0 and 1": lambda: sinks.share_outside(ONES, energy=0.0),
    "the share of energy, 1.0, is not between 0 and 1": lambda: sinks.share_outside(ONES, energy=1.0),
    "largest = 0 must be between 1 and the 8 activations of a sequence": lambda: massive_activations(ONES[:, 0], 0),
    "largest = 9 must be between 1 and the 8 activations of a sequence": lambda: massive_activations(ONES[:, 0], 9),
    "token 0 of the sink rate is not among the 4 tokens of the text": lambda: sinks.sink_rate(ONES[0], token=0, epsilon=0.3),
    "token 5 of the sink rate is not among the 4 tokens of the text": lambda: sinks.sink_rate(ONES[0], token=5, epsilon=0.3),
    "start = 5 must be between 0 and 4, the last token of the text": lambda: sinks.first_norm_ratio(ONES, start=5),
    "start = -1 must be between 0 and 4, the last token of the text": lambda: sinks.first_norm_ratio(ONES, start=-1),
    f"{AXES} []": lambda: gradient_norms({}),
    f"{AXES} [(2,), (3,)]": lambda: gradient_norms((jnp.ones(2), jnp.ones((3, 2)))),
    f"{AXES} [()]": lambda: gradient_norms(jnp.float32(1)),
    "a grid of 1 points": lambda: retrieval.grid_edges(1),
    "position 'alibi' has no base": lambda: recall.predicted_reach(ALIBI),
    "the byte tokenizer finds no token": lambda: cost(ByteTokenizer(), ""),
    "mya: the byte tokenizer finds no token": lambda: costs(ByteTokenizer(), {"eng": "a", "mya": ""}),
    "'fra' is none of the texts: eng, mya": lambda: relative(TWO, "fra"),
    "no text to encode": lambda: megabytes_per_second({}, [""]),
    "head dim must be even and at least 2, not 127": lambda: bound_report(127, 64),
    "head dim must be even and at least 2, not 0": lambda: bound_report(0, 64),
    "length must be at least 1": lambda: bound_report(64, 0),
    "every must be at least 1": lambda: bound_report(64, 64, every=0),
    "2 points": lambda: fitted({1: 1.0, 2: 2.0}),
}


@pytest.mark.parametrize("message", WRONG)
def test_impossible_arguments_are_named(message: str) -> None:
    with pytest.raises((ValueError, UserError), match=re.escape(message)):
        WRONG[message]()
