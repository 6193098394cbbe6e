"""Two runs at once on one results folder, in processes of their own."""

import signal
from pathlib import Path

import pytest

from leadline.experiments.records.measurement import value_of
from tests.experiments.executors.commands import SAVED, records_of, result_of, running, two_groups, until

EXPIRY = 5.0  # s


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_what_one_leaves_the_other_takes_over(tmp_path: Path, number: signal.Signals) -> None:
    """The first one stands still in its first group. The second one trains the other group, then goes on with that one."""
    results = tmp_path / "results"
    words = ("run", two_groups(tmp_path), *SAVED, "--results", results, "--expiry", str(EXPIRY), "--json")
    with running(*words) as first:
        until(first, lambda: list(results.glob("mine/.group-*/manifest-*.json")))
        first.send_signal(signal.SIGSTOP)
        with running(*words) as second:
            waiting = f"process {first.pid}, to finish"
            until(second, lambda: number == signal.SIGSTOP or waiting in (results / "leadline.log").read_text())
            first.send_signal(number)
            outcome, said = result_of(second)
        assert (outcome["trained"], outcome["recorded"]) == (6, 0)
        records = records_of(results) if number == signal.SIGKILL else {}
        if number == signal.SIGSTOP:  # what it saves next is refused, and it finds all recorded
            first.send_signal(signal.SIGCONT)
            outcome, said = result_of(first)
            assert "left to" in said and "because this process was not heard of for too long" in said
            assert outcome["trained"] == 0
            records = records_of(results)
    assert sorted(records) == [(arm, seed) for arm in ("gated", "learned", "softmax") for seed in (0, 1)]
    for (arm, _), record in records.items():
        pids = [worker.pid for worker in record.workers]
        assert pids == ([second.pid] if arm == "gated" else [first.pid, second.pid])
        assert record.workers[-1].first_step == 0 if arm == "gated" else record.workers[-1].first_step > 0
        assert value_of(record, "loss") is not None
