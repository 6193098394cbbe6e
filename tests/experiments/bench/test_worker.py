"""What a worker says of itself."""

import io
import json
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from experiments.bench import worker

HERE = "tests.experiments.bench.contestants"


def _answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], entry: str, settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Of a worker that is asked for two rounds, line by line."""
    monkeypatch.setattr(sys, "argv", ["worker", f"{HERE}:{entry}", json.dumps(settings)])
    monkeypatch.setattr(sys, "stdin", io.StringIO("go\ngo\n"))
    worker.main()
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_facts_come_first_and_then_the_rounds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    first, *rounds = _answers(monkeypatch, capsys, "counts", {"value": 2.0})
    assert first["value"] == 2.0
    assert first["found"] == 7
    assert first["peak_mib"] > 1
    assert [set(one) for one in rounds] == [{"seconds"}] * 2


def test_a_contestants_own_peak_counts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _answers(monkeypatch, capsys, "counts", {"peak_mib": None})[0]["peak_mib"] is None


def test_one_that_is_absent_is_asked_for_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (only,) = _answers(monkeypatch, capsys, "absent", {})
    assert set(only) == {"absent"}


def test_a_round_repeats_what_is_quick(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(worker, "ROUND_SECONDS", 0.0)
    _answers(monkeypatch, capsys, "repeats", {})
    from tests.experiments.bench import contestants

    assert len(contestants.DONE) == 1 + 2 * worker.LEAST
