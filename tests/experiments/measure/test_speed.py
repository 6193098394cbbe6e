"""Speeds, by a clock of our own."""

import pytest

from leadline.experiments.measure.speed import megabytes_per_second


def test_ways_take_turns() -> None:
    now, order = [0.0], []
    costs = {"fast": iter([0.001, 0.001, 0.009]), "slow": iter([0.004, 0.002, 0.004])}

    def encode_as(name: str, text: str) -> None:
        order.append((name, len(text)))
        now[0] += next(costs[name])

    ways = {name: lambda text, name=name: encode_as(name, text) for name in costs}
    speeds = megabytes_per_second(ways, ["x" * 1000], clock=lambda: now[0])
    assert speeds == {"fast": pytest.approx([1, 1, 1 / 9]), "slow": pytest.approx([0.25, 0.5, 0.25])}
    assert order == [("fast", 1000), ("slow", 1000)] * 3


def test_nothing_has_no_speed() -> None:
    with pytest.raises(ValueError, match="no text to encode"):
        megabytes_per_second({}, [""])
