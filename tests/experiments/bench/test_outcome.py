"""Ratios, rates and targets, and how they are printed."""

import json
from pathlib import Path
from typing import Any

import pytest

from leadline.experiments.bench.contest import Case, Contestant, Timed
from leadline.experiments.bench.outcome import outcome
from leadline.experiments.bench.page import ceilings, duration, rows_of
from leadline.experiments.bench.run import OUTCOMES, PAGE, keep
from leadline.experiments.runtime.devices import ACCELERATORS
from leadline.experiments.runtime.errors import UserError

CPU = {"cpu": "a processor", "cores": 2, "memory_gib": 4.0, "accelerator": None, "device_kind": "cpu"}
GPU = CPU | {"accelerator": "1 x NVIDIA H200", "device_kind": "NVIDIA H200"}
OURS = Timed("ours", (1.0, 2.0, 4.0), {"value": 1.0, "peak_mib": 512.25, "compile_seconds": 0.25})
THEIRS = Timed("theirs", (3.0, 5.0, 4.0), {"value": 1.0})
ABSENT = Timed("torch", (), {"absent": "torch is not installed"})
CEILING = Timed("product", (0.5, 0.5), {"flops": 5e9})


def _outcome(machine: dict[str, Any] = CPU, **settings: Any) -> dict[str, Any]:
    contestants = tuple(Contestant(times.name, "module:function") for times in (OURS, THEIRS, ABSENT))
    return outcome(Case("a case", contestants, **settings), [OURS, THEIRS, ABSENT], CEILING, machine)


def test_rates_and_shares() -> None:
    ours, theirs, absent = _outcome(flops=4e9, tokens=100)["contestants"]
    assert (ours["flops_a_second"], ours["share"], theirs["tokens_a_second"]) == (2e9, 0.2, 25)
    assert theirs["ratio"] == {"median": 2.5, "low": 1.0, "high": 3.0}  # of rounds of the same number
    assert "utilisation" not in ours
    assert set(absent) == {"name", "rounds", "facts"}


def test_utilisation_is_of_the_published_peak() -> None:
    content, device = _outcome(GPU, flops=4e9, utilisation=0.3), ACCELERATORS["h200"]
    assert content["contestants"][0]["utilisation"] == 2e9 / device.bfloat16
    assert content["peak"]["source"] == device.source
    assert rows_of(content)[0]["target"] == "utilisation ≥ 30%"


@pytest.mark.parametrize(
    ("settings", "met"),
    [
        ({"targets": {"theirs": 2.5}}, [[], [True], None]),
        ({"targets": {"theirs": 2.6, "torch": 1.0}}, [[], [False], None]),
        ({"seconds": 2.0, "tokens": 10, "rate": 5.1}, [[False, True], [], None]),
        ({"flops": 4e9, "share": 0.2}, [[True], [], None]),
        ({"flops": 4e9, "utilisation": 0.3}, [[], [], None]),
        ({"flops": 4e9, "utilisation": 0.3, "machine": GPU}, [[False], [], None]),
    ],
)
def test_a_target_is_met_or_not_where_it_can_be_measured(settings: dict[str, Any], met: list[list[bool] | None]) -> None:
    targets = [row.get("targets") for row in _outcome(**settings)["contestants"]]
    assert [row and [target["met"] for target in row] for row in targets] == met


def test_rows_have_no_empty_column() -> None:
    content = _outcome(flops=4e9, targets={"theirs": 2.0}, seconds=1.0)
    ours, theirs, absent = rows_of(content)
    columns = ["contestant", "median", "times ours", "target", "met", "GFLOP/s", "of the ceiling", "peak MiB", "compile"]
    assert ours == dict(zip(columns, ("ours", "2 s", "–", "≤ 1 s", "no", "2.00", "20%", "512", "250 ms"), strict=True))
    assert theirs["times ours"] == "2.50 (1.00 to 3.00)"
    assert (theirs["target"], theirs["met"], theirs["peak MiB"]) == ("≥ 2", "yes", "–")
    assert absent["median"] == "torch is not installed"
    assert "of the ceiling" not in rows_of(_outcome())[0]
    assert ceilings(content) == ["ceiling: product in the same run: 10 GFLOP/s"]


@pytest.mark.parametrize(("seconds", "text"), [(61.234, "61.2 s"), (1234.5, "1234 s"), (0.0512, "51.2 ms"), (2.5e-4, "250 µs")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def _content(name: str) -> dict[str, Any]:
    head = {"benchmark": name, "question": "How long?", "notes": ["a note"], "rounds": 3, "date": "2026-01-01"}
    about = {"machine": CPU, "versions": {"python": "3.11"}, "commit": "0123456789abcdef", "dirty": True}
    return head | about | {"cases": [_outcome(targets={"theirs": 2.0})]}


def test_the_page_is_of_the_last_outcome_of_each_benchmark(tmp_path: Path) -> None:
    for name in ("b", "a", "b"):
        keep(tmp_path, _content(name))
    text = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert text.index("## a: How long?") < text.index("## b: How long?")
    for part in ("a processor, 2 cores, 4 GiB", "python 3.11", "commit 0123456789 with changes", "- a note", "≥ 2", "| ours |"):
        assert part in text
    assert json.loads((tmp_path / OUTCOMES).read_bytes()) == {"benchmarks": [_content("a"), _content("b")]}


def test_a_file_that_is_no_outcome_and_a_folder_that_is_none_are_named(tmp_path: Path) -> None:
    other = tmp_path / OUTCOMES
    other.write_text("[]")
    for folder, message in ((tmp_path, OUTCOMES), (other, "--results")):
        with pytest.raises(UserError, match=message):
            keep(folder, _content("a"))
