"""Every claim on models that are taken apart, on records that support it and on records that do not."""

from math import log

import pytest

from experiments.evidence import Claim, judge
from experiments.record import Record
from experiments.studies.anatomy_claims import DEPTH, GATE_POSITION, SINKS_LM, STABILITY, even
from experiments.studies.backcopy_claims import BACKCOPY
from experiments.studies.stability import best, table
from tests.experiments.synthetic_records import measured, record

Values = dict[tuple[str, str], float]
CLAIMS = {claim.id: claim for claim in (*SINKS_LM, *GATE_POSITION, *STABILITY, *DEPTH, *BACKCOPY)}


def pair(name: str, first: str, second: str, high: float, low: float) -> tuple[Values, Values]:
    """The first arm above the second, and the other way round."""
    return {(first, name): high, (second, name): low}, {(first, name): low, (second, name): high}


def one(arm: str, name: str, good: float, bad: float) -> tuple[Values, Values]:
    return {(arm, name): good}, {(arm, name): bad}


def layers(name: str, good: list[float], bad: list[float]) -> tuple[Values, Values]:
    cases = [{("softmax", f"{name}.layer{i}"): value for i, value in enumerate(values, start=1)} for values in (good, bad)]
    # The layers of a record are known by their kurtosis.
    for case in cases:
        case |= {("softmax", f"kurtosis.layer{i}"): 3.0 for i in range(1, len(good) + 1)}
    return cases[0], cases[1]


PLACES = ("value_channel", "key_channel", "query_channel", "projection_channel")
FIXED = "_bos=fixed"
CASES: dict[str, tuple[Values, Values]] = {
    "gu-first-token": one("softmax", "first_token_mass", 0.3, 0.08),
    "gu-fixed": pair("sink_rate", "softmax", "absent", 0.4, 0.1),
    "gu-decay": pair("sink_rate", "softmax", "decay_0.1", 0.4, 0.1),
    "gu-rate": pair("sink_rate", "softmax", "rate_0.0025", 0.4, 0.1),
    "barbero-context": pair("first_token_mass", "context_256", "context_32", 0.3, 0.1),
    "gu-value": one("softmax", "value_norm_ratio", 0.2, 0.8),
    "gu-cosine": (
        {("softmax", "key_cosine"): 0.5, ("softmax", "key_cosine_others"): 0.1},
        {("softmax", "key_cosine"): 0.1, ("softmax", "key_cosine_others"): 0.5},
    ),
    "gu-subspace": one("softmax", "key_outside", 0.5, 0.02),
    "gu-k-bias": pair("sink_rate", "softmax", "k_bias", 0.4, 0.01),
    "gu-sigmoid": pair("sink_rate", "softmax", "sigmoid", 0.4, 0.01),
    "zuhri-softpick-lm": pair("sink_rate", "softmax", "softpick", 0.4, 0.01),
    "zuhri-logit-lm": pair("sink_rate", "softmax", "learned_logit", 0.4, 0.1),
    "zuhri-logit-remains-lm": pair("sink_rate", "learned_logit", "softmax", 0.4, 0.01),
    "gu-useless-value": one("softmax", "change_zero_value.loss", 0.001, 0.1),
    "qiu-lm-cuts": pair("first_token_mass", "softmax", "output_channel", 0.4, 0.1),
    "qiu-lm-headwise": pair("first_token_mass", "softmax", "output_head", 0.4, 0.1),
    "qiu-static": pair("first_token_mass", "output_static", "softmax", 0.4, 0.1),
    "qiu-restricted": pair("first_token_mass", "output_restricted", "softmax", 0.4, 0.1),
    "qiu-best-place": (
        {("output_channel", "loss"): 2.0} | {(arm, "loss"): 2.1 for arm in PLACES},
        {("output_channel", "loss"): 2.0} | {(arm, "loss"): 1.9 if arm == "key_channel" else 2.1 for arm in PLACES},
    ),
    "qiu-lm-loss": pair("loss", "softmax", "output_channel", 2.1, 2.0),
    "qiu-sparse": one("output_channel", "gate_mean", 0.1, 0.4),
    "qiu-sparser": pair("gate_mean", "value_channel", "output_channel", 0.4, 0.1),
    "qiu-lm-activations": pair("activation_ratio", "softmax", "output_channel", 40.0, 10.0),
    "gu-deeper": layers("first_token_mass", [0.1, 0.1, 0.4, 0.5], [0.5, 0.4, 0.1, 0.1]),
    "gu-norm-peak": layers("residual_norm_ratio", [1.0, 3.0, 3.0, 1.0], [3.0, 1.0, 1.0, 3.0]),
    "early-decoding": layers("early_divergence", [1.0, 0.5, 0.2, 0.0], [1.0, 1.2, 0.2, 0.0]),
    "guo-relu": pair("bos_mass", f"softmax{FIXED}", f"relu_by_keys{FIXED}", 0.7, 0.01),
    "guo-relu-value": pair("bos_value_ratio", f"relu_by_keys{FIXED}", f"softmax{FIXED}", 0.7, 0.2),
    "guo-gap": one(f"softmax{FIXED}", "logit_gap", 2.0, -1.0),
    "guo-dormant": (
        {(f"softmax{FIXED}", "change_forced.bigram_loss"): 0.01, (f"softmax{FIXED}", "change_forced.backcopy_loss"): 4.0},
        {(f"softmax{FIXED}", "change_forced.bigram_loss"): 2.0, (f"softmax{FIXED}", "change_forced.backcopy_loss"): 4.0},
    ),
    "guo-peak": one("three_layers", "residual_norm_ratio", 3.0, 1.1),
    "guo-sgd-peak": pair("residual_norm_ratio", "three_layers", "three_layers_sgd", 3.0, 1.1),
    "guo-relu-peak": pair("residual_norm_ratio", "three_layers", "three_layers_relu", 3.0, 1.1),
    "gu-one-channel": pair("logit_mass", f"k_bias_1{FIXED}", f"k_bias{FIXED}", 0.3, 0.01),
    "gu-k-bias-backcopy": pair("sink_rate", f"softmax{FIXED}", f"k_bias{FIXED}", 0.9, 0.01),
    "bos-needed": pair("bos_mass", f"softmax{FIXED}", "softmax_bos=absent", 0.7, 0.05),
}
for _name, _id in (("gate", "qiu-stable"), ("sandwich", "qiu-sandwich")):
    _best: Values = {("plain_learning_rate=0.01", "loss"): 2.0, ("plain_learning_rate=0.02", "loss"): 2.2}
    _high = ("plain_learning_rate=0.08", "loss"), (f"{_name}_learning_rate=0.08", "loss")
    CASES[_id] = (_best | {_high[0]: 4.0, _high[1]: 2.5}, _best | {_high[0]: 2.5, _high[1]: 4.0})


def made(study: str, values: Values) -> list[Record]:
    """Three seeds, a hundredth apart from each other."""
    found = []
    for seed in range(3):
        arms: dict[str, dict[str, float | None]] = {}
        for (arm, name), value in values.items():
            arms.setdefault(arm, {})[name] = value * (1 + 0.01 * seed)
        found += [record(study, arm, seed, measurements=measured(own)) for arm, own in arms.items()]
    return found


def test_every_claim_has_a_case() -> None:
    assert set(CASES) == set(CLAIMS)


@pytest.mark.parametrize("name", CASES)
def test_it_holds_where_it_is_supported_and_fails_where_it_is_not(name: str) -> None:
    claim: Claim = CLAIMS[name]
    supporting, contradicting = CASES[name]
    assert judge(claim, made(claim.study, supporting)).verdict == "holds"
    refuted = judge(claim, made(claim.study, contradicting))
    assert refuted.verdict == "fails"
    assert refuted.reason.endswith(f"it was shown at {claim.shown_at}")


@pytest.mark.parametrize("name", CASES)
def test_without_records_it_is_not_measured(name: str) -> None:
    assert judge(CLAIMS[name], []).verdict == "not measured"


def test_even_attention_is_the_harmonic_number_over_the_length() -> None:
    assert even(64) == pytest.approx(0.0741, abs=1e-4)


def test_a_seed_that_diverged_counts_as_one_that_guesses_evenly() -> None:
    values: Values = {
        ("plain_learning_rate=0.01", "loss"): 2.0,
        ("gate_learning_rate=0.01", "loss"): 2.0,
        ("gate_learning_rate=0.02", "loss"): 2.1,
    }
    lost = [record("stability", "plain_learning_rate=0.02", seed, status="diverged") for seed in range(3)]
    records = made("stability", values) + lost
    verdict = judge(CLAIMS["qiu-stable"], records)
    assert best(records) == "0.01"
    assert verdict.verdict == "holds"
    assert f"at 0.02: plain {log(259):.3f}" in verdict.measured
    cells = {row[0]: row[1:] for row in table(records).rows}
    assert cells["pre-norm"][1] == "3 diverged"
