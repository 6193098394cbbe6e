import math

import pytest

from leadline.experiments.records.decisions import decide
from leadline.experiments.records.record import Record
from leadline.experiments.studies.predicates import decoding_converges, gate_is_stable, sandwich_is_stable
from tests.experiments.synthetic_records import measured, record


def depth(*divergences: float) -> list[Record]:
    """A record a seed; the divergence of the first layer differs between seeds."""
    later = [measured("early_divergence", value, layer=i) for i, value in enumerate(divergences, start=2)]
    return [record("depth", "softmax", seed, measured("early_divergence", 3.0 + seed, layer=1), *later) for seed in range(3)]


def test_decoding_converges_where_every_layer_comes_nearer() -> None:
    evidence = decoding_converges(depth(2.0, 0.5, 0.1))
    assert evidence is not None and evidence.margins == pytest.approx((0.4, 0.4, 0.4))
    assert decide(evidence).outcome == "holds"
    evidence = decoding_converges(depth(2.0, 2.5, 0.1))
    assert evidence is not None and decide(evidence).outcome == "fails"
    assert decoding_converges(depth(2.0)) is None
    assert decoding_converges([]) is None


def stability(gate: str, norm: str, losses: dict[float, tuple[float | None, ...]]) -> list[Record]:
    """A record a learning rate and seed; None is a seed that diverged."""
    model = {"gate": {"kind": gate}, "norm_placement": norm}
    return [
        record("stability", gate, seed, *numbers, config={"model": model, "train": {"learning_rate": rate}}, status=status)
        for rate, by_seed in losses.items()
        for seed, loss in enumerate(by_seed)
        for status, numbers in (("diverged", []) if loss is None else ("finished", [measured("loss", loss)]),)
    ]


PLAIN = stability("none", "pre", {0.01: (2.0, 2.0), 0.02: (2.1, 2.1), 0.04: (3.0, None), 0.08: (None, None)})


def test_a_seed_that_diverged_guesses_evenly() -> None:
    evidence = gate_is_stable([*PLAIN, *stability("output", "pre", {0.01: (1.9, 1.9), 0.04: (2.1, 2.2)})])
    assert evidence is not None and "at rate 0.04 (best 0.01)" in evidence.measured
    assert evidence.margins == pytest.approx((0.9, math.log(259) - 2.2))


def test_a_worse_model_speaks_against_the_claim() -> None:
    plain = stability("none", "pre", {0.01: (2.0, 2.0), 0.04: (3.0, 3.1)})
    evidence = sandwich_is_stable([*plain, *stability("none", "sandwich", {0.04: (4.0, 4.2)})])
    assert evidence is not None and decide(evidence).outcome == "fails"


def test_nothing_is_testable_where_the_plain_model_is_stable() -> None:
    evidence = gate_is_stable([*PLAIN[:4], *stability("output", "pre", {0.02: (2.0, 2.0)})])
    assert evidence is not None and decide(evidence)[:2] == ("not testable here", evidence.unmet)
    assert gate_is_stable([]) is None
