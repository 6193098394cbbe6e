"""Speeds, by a clock of our own."""

from types import SimpleNamespace

import pytest

from experiments.measure import speed


def test_ways_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    now, order = [0.0], []
    costs = {"fast": iter([0.001, 0.001, 0.009]), "slow": iter([0.004, 0.002, 0.004])}

    def way(name: str) -> object:
        def encode(text: str) -> None:
            order.append((name, text))
            now[0] += next(costs[name])

        return encode

    monkeypatch.setattr(speed, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    found = speed.megabytes_per_second({name: way(name) for name in costs}, ["x" * 1000])  # type: ignore[misc]
    assert found == {"fast": pytest.approx([1, 1, 1 / 9]), "slow": pytest.approx([0.25, 0.5, 0.25])}
    assert [name for name, _ in order] == ["fast", "slow"] * 3


def test_nothing_has_no_speed() -> None:
    with pytest.raises(ValueError, match="no text to encode"):
        speed.megabytes_per_second({}, [""])
