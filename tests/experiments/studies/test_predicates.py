import math
from collections.abc import Mapping
from typing import Any

import pytest

from leadline.experiments.records.decisions import decide
from leadline.experiments.records.record import Record
from leadline.experiments.records.verdict import Predicate
from leadline.experiments.studies.predicates import (
    decoding_converges,
    depends_less_on_the_rate,
    tolerated_rate,
    tolerates_higher_rates,
)
from leadline.tokenization.byte import ByteTokenizer
from tests.experiments.synthetic_records import measured, record


def depth(*divergences: float) -> list[Record]:
    """A record a seed; the divergence of the first layer differs between seeds."""
    later = [measured("early_divergence", value, layer=i) for i, value in enumerate(divergences, start=2)]
    return [record("depth", "softmax", seed, measured("early_divergence", 3.0 + seed, layer=1), *later) for seed in range(6)]


def test_decoding_converges_where_every_layer_comes_nearer() -> None:
    evidence = decoding_converges(depth(2.0, 0.5, 0.1))
    assert evidence is not None and evidence.margins == pytest.approx((0.4,) * 6)
    assert decide(evidence.margins).outcome == "holds"
    evidence = decoding_converges(depth(2.0, 2.5, 0.1))
    assert evidence is not None and decide(evidence.margins).outcome == "fails"
    assert decoding_converges(depth(2.0)) is None
    assert decoding_converges([]) is None


Losses = Mapping[float, tuple[float | None, ...]]


def stability(losses: Losses, gate: str = "none", norm: str = "pre", *, qk_norm: bool = False) -> list[Record]:
    """A record a learning rate and seed; None is a seed that diverged."""
    model = {"gate": {"kind": gate}, "norm_placement": norm, "qk_norm": qk_norm}
    return [
        record("stability", gate, seed, *numbers, config={"model": model, "train": {"learning_rate": rate}}, status=status)
        for rate, by_seed in losses.items()
        for seed, loss in enumerate(by_seed)
        for status, numbers in (("diverged", []) if loss is None else ("finished", [measured("loss", loss)]),)
    ]


# Halfway between ln 0.01 and ln 0.04 the loss is 0.1 nats above the best of 2.0.
PLAIN: Losses = {0.0025: (2.3, 2.4), 0.01: (2.0, 2.0), 0.04: (2.2, 2.2), 0.16: (None, None)}


def test_the_tolerated_rate_lies_where_the_loss_crosses_its_bound() -> None:
    assert tolerated_rate({0.0025: 2.3, 0.01: 2.0, 0.04: 2.2, 0.16: 2.05}) == pytest.approx(0.02)
    assert tolerated_rate({0.01: 2.0, 0.04: 2.1}) == 0.04


BETTER: Losses = {0.0025: (2.1, 2.1), 0.01: (2.0, 2.0), 0.04: (2.05, 2.05), 0.16: (2.25, 2.15)}


@pytest.mark.parametrize("change", [{"gate": "output"}, {"norm": "sandwich"}, {"qk_norm": True}])
def test_margins_are_logarithms_of_ratios_of_tolerated_rates(change: dict[str, Any]) -> None:
    plain = stability(PLAIN)
    evidence = tolerates_higher_rates([*plain, *stability(BETTER, **change)])
    assert evidence is not None and evidence.margins == pytest.approx((math.log(2 * 4**0.25), math.log(4)))
    clear = tolerates_higher_rates([*plain, *stability({**BETTER, 0.16: (2.2, 2.19)}, **change)])
    assert clear is not None and decide(clear.margins).outcome == "holds"
    worse = tolerates_higher_rates([*plain, *stability({**PLAIN, 0.01: (2.0, 1.9), 0.04: (None, None)}, **change)])
    assert worse is not None and decide(worse.margins).outcome == "fails"


@pytest.mark.parametrize("change", [{"gate": "output"}, {"norm": "sandwich"}, {"qk_norm": True}])
def test_margins_are_logarithms_of_ratios_of_sensitivities(change: dict[str, Any]) -> None:
    # Above the best of 2.0 the plain model is by 0.3 or 0.4, 0, 0.2 and, diverged, that of even guessing less 2.
    sensitivities = [(above + 0.2 + math.log(ByteTokenizer().vocabulary_size) - 2) / 4 for above in (0.3, 0.4)]
    evidence = depends_less_on_the_rate([*stability(PLAIN), *stability(BETTER, **change)])
    expected = [math.log(a / b) for a, b in zip(sensitivities, (0.1, 0.075), strict=True)]
    assert evidence is not None and evidence.margins == pytest.approx(expected)
    assert decide(evidence.margins).outcome == "holds"
    worse = depends_less_on_the_rate([*stability(BETTER), *stability(PLAIN, **change)])
    assert worse is not None and decide(worse.margins).outcome == "fails"


@pytest.mark.parametrize("predicate", [tolerates_higher_rates, depends_less_on_the_rate])
def test_nothing_is_said_without_a_seed_of_both(predicate: Predicate) -> None:
    assert predicate(stability(PLAIN)) is None
    assert predicate([]) is None


@pytest.mark.parametrize("predicate", [tolerates_higher_rates, depends_less_on_the_rate])
def test_models_are_compared_at_the_same_rates_of_which_there_are_several(predicate: Predicate) -> None:
    assert predicate([*stability(PLAIN), *stability({0.01: (2.0, 2.0), 0.04: (2.1, 2.1)}, "output")]) is None
    assert predicate([*stability({0.01: (2.0, 2.0)}), *stability({0.01: (2.0, 2.0)}, "output")]) is None


def test_nothing_is_testable_where_the_plain_model_tolerates_every_rate() -> None:
    losses: Losses = {0.01: (2.0, 2.0), 0.02: (2.05, 2.0)}
    evidence = tolerates_higher_rates([*stability(losses), *stability(losses, "output")])
    assert evidence is not None and "within 0.1 nats of its best" in evidence.unmet
