"""Arms × seeds in shared programs: recorded once, resumed exactly, diverging alone."""

import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import jax
import numpy as np
import pytest

from leadline.experiments.config.attention import Gate, LearnedSink
from leadline.experiments.config.measure import AblationMeasure
from leadline.experiments.config.position import Rope
from leadline.experiments.config.study import Start
from leadline.experiments.data.source import CACHE
from leadline.experiments.publish.export import pack
from leadline.experiments.records.measurement import reading, value_of
from leadline.experiments.records.store import read_records
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.signals import Interrupted
from leadline.experiments.runtime.worker import CLAIMS, Worker
from leadline.experiments.training import claimed, loop, plan, recording, saving
from leadline.experiments.training.claimed import train_claimed
from leadline.experiments.training.group import RunGroup
from leadline.experiments.training.plan import grouped, run_arms
from leadline.experiments.training.session import Session, opened
from tests.experiments.training.runs import BATCH, LENGTH, SOFTMAX, STEPS, PowerCut, Watched, changed, kept, run, stored_in

pytestmark = pytest.mark.usefixtures("in_use")

ROPE = partial(Rope, base=100.0)
LEARNED = changed("learned", model={"sink": LearnedSink()})
WILD = changed("wild", train={"learning_rate": 1e6})
THREE_PROGRAMS = ("initialise", "train", "measure")


@pytest.fixture(scope="module")
def whole(in_use: None, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001
    """Two arms and two seeds, trained without a break."""
    results = tmp_path_factory.mktemp("whole") / "results"
    outcome = run(results, [SOFTMAX, LEARNED])
    assert (outcome.trained, outcome.recorded) == (4, 0)
    assert outcome.programs == THREE_PROGRAMS
    return results


@pytest.fixture
def compilations() -> Iterator[list[str]]:
    """Names of the events that JAX reports while it compiles."""
    events: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, duration_secs, **_: events.append(event))  # noqa: ARG005
    yield events
    jax.monitoring.clear_event_listeners()


def test_records_say_what_was_done(whole: Path) -> None:
    records = stored_in(whole)
    assert set(records) == {(arm, seed) for arm in ("softmax", "learned") for seed in (0, 1)}
    for (arm, seed), stored in records.items():
        record, curve = stored.record, stored.curve()
        assert (record.status, record.label, record.steps) == ("finished", "Softmax", STEPS)
        assert (record.tokens, record.training_length) == (STEPS * BATCH * LENGTH, LENGTH)
        assert curve.steps.tolist() == [0, 3, 6]
        train_loss = curve.values[reading("train_loss")]
        assert np.isnan(train_loss).tolist() == [True, False, False]
        assert stored.arrays()[reading("sink_rate")].shape == (1, 2)
        assert value_of(record, "loss") == pytest.approx(curve.values[reading("loss")][-1], rel=1e-6)
        assert value_of(record, "sink_rate", layer=1) == value_of(record, "sink_rate")
        assert value_of(record, "windows", length=LENGTH) == 6
        assert record.data["digest"] is None
        assert ((value_of(record, "sink_logit_mass") or 0) > 0) == (arm == "learned")
        assert list(whole.glob(f"sinks/{arm}-{record.arm_hash}/s{seed}/record.json"))
    assert kept(whole)["softmax", 0][1] != kept(whole)["softmax", 1][1]
    assert not list((whole / "sinks").glob(f"{saving.PREFIX}*"))


def test_what_is_recorded_is_not_run_again(whole: Path, compilations: list[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.glob("sinks/**/*.*")}
    outcome = run(whole, [SOFTMAX, LEARNED])
    assert (outcome.trained, outcome.recorded, outcome.programs) == (0, 4, ())
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert not [event for event in compilations if "backend_compile" in event]
    jax.jit(lambda x: x + 3.25)(1.0)
    assert [event for event in compilations if "backend_compile" in event]  # the events would have been heard


def test_a_new_seed_trains_only_itself(whole: Path, tmp_path: Path) -> None:
    results, before, watched = shutil.copytree(whole, tmp_path / "results"), kept(whole), Watched()
    outcome = run(results, [SOFTMAX], seeds=(0, 1, 2), progress=watched)
    assert (outcome.trained, outcome.recorded) == (1, 2)
    assert watched.titles == ["group 1 of 1: sinks: softmax x 1"]
    after = kept(results)
    assert set(after) == {*before, ("softmax", 2)}
    assert all(after[key] == before[key] for key in before)


def test_packed_records_are_not_run_again(whole: Path, tmp_path: Path) -> None:
    pack(whole, "sinks", tmp_path, ())
    outcome = run(tmp_path, [SOFTMAX, LEARNED], seeds=(0, 1, 2))
    assert (outcome.trained, outcome.recorded) == (2, 4)
    records, notes = read_records(tmp_path)
    assert [(stored.record.arm, stored.record.seed) for stored in records] == list(product(("learned", "softmax"), (0, 1, 2)))
    assert not notes


def test_nothing_starts_from_a_packed_record(whole: Path, tmp_path: Path) -> None:
    pack(whole, "sinks", tmp_path, ())
    further = changed("further", SOFTMAX).model_copy(update={"start": Start(arm="softmax", length=LENGTH, steps=STEPS)})
    with pytest.raises(UserError, match=r"records\.jsonl\.xz: the record of 'softmax', seed 0, has no weights .*; run"):
        run(tmp_path, [SOFTMAX, further], (0,))


def _killed_at(module: ModuleType, name: str, call: int) -> AbstractContextManager[object]:
    """Breaks off when a function of a module is called for that many times."""
    return mock.patch.object(module, name, wraps=getattr(module, name), side_effect=[mock.DEFAULT] * (call - 1) + [PowerCut])


# How, when the steps are told, how often a checkpoint is saved, and the first step of the run that goes on.
BREAKS: dict[str, tuple[AbstractContextManager[object], dict[str, Any], int, int]] = {
    "asked to stop": (nullcontext(), {"stop_at": 2}, 0, 5),
    "killed between checkpoints": (nullcontext(), {"fail_at": 5}, 2, 5),
    "killed with a damaged checkpoint": (nullcontext(), {"fail_at": 5}, 2, 3),
    "killed at the end": (_killed_at(loop, "save_group", 1), {}, 0, 1),
    "killed before measuring": (nullcontext(), {"fail_at": "measuring"}, 0, 7),
    "killed between the weights of two members": (_killed_at(recording, "save_weights", 3), {}, 0, 7),
    "killed between the records of two members": (_killed_at(recording, "write_record", 3), {}, 0, 7),
}


@pytest.mark.parametrize("how", BREAKS)
def test_resumed_equals_uninterrupted(whole: Path, tmp_path: Path, how: str) -> None:
    killed, told, every, first_step = BREAKS[how]
    arms = [changed(arm.name, arm, train={"checkpoint_every": every}) for arm in (SOFTMAX, LEARNED)]
    with killed, pytest.raises((Interrupted, PowerCut)) as raised:
        run(tmp_path, arms, progress=Watched(**told))
    if raised.type is Interrupted:
        assert raised.match("sinks: stopped at step 4 of 6, which is kept")
    for newest in tmp_path.glob(f"sinks/{saving.PREFIX}*/manifest-4.json") if "damaged" in how else ():
        newest.write_bytes(newest.read_bytes().replace(b"values", b"valuez"))
    already = len(kept(tmp_path))
    again = Watched()
    outcome = run(tmp_path, arms, progress=again)
    assert (outcome.trained, outcome.recorded) == (4 - already, already)
    assert again.steps == list(range(first_step, STEPS + 1))
    assert any("its manifest is damaged" in note and "passed over" in note for note in again.notes) == ("damaged" in how)
    assert again.titles == ["group 1 of 1: sinks: softmax, learned x 2"]
    records = kept(tmp_path)
    for record, _, _ in records.values():
        record["config"]["train"]["checkpoint_every"] = 0
    assert records == kept(whole)
    assert not list((tmp_path / "sinks").glob(f"{saving.PREFIX}*"))


@pytest.mark.slow
def test_some_members_of_a_group_go_on_and_the_others_later(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        run(tmp_path, [SOFTMAX, LEARNED], progress=Watched(stop_at=2))
    alone = Watched()
    assert run(tmp_path, [SOFTMAX], seeds=(1,), progress=alone).trained == 1
    assert alone.steps == [5, 6]
    rest = Watched()
    assert run(tmp_path, [SOFTMAX, LEARNED], progress=rest).trained == 3
    assert rest.steps == [5, 6]
    records, expected = kept(tmp_path), kept(whole)
    assert all(records[key] == expected[key] for key in expected if key != ("softmax", 1))


def test_the_last_checkpoint_counts_whichever_folder_it_is_in(tmp_path: Path) -> None:
    """Some members of a group go on from its folder, and save in one of their own."""
    arms = [changed(arm.name, arm, train={"checkpoint_every": 1}) for arm in (SOFTMAX, LEARNED)]
    with pytest.raises(Interrupted):
        run(tmp_path, arms, progress=Watched(stop_at=1))
    cut, rest = Watched(fail_at=5), Watched()
    with opened(tmp_path, rest, rest.interruption) as session:
        _, (planned,) = grouped("sinks", arms[:1], (1,), tmp_path, tmp_path / CACHE, rest, session.room)
        with pytest.raises(PowerCut):
            train_claimed(planned, "", replace(session, progress=cut))
        assert train_claimed(planned, "", session) == 1
    assert planned.first_step < 4
    assert rest.steps == [5, 6]


def test_what_another_run_has_recorded_since_is_not_trained_again(tmp_path: Path) -> None:
    watched = Watched()

    def late(group: RunGroup, part: str, session: Session) -> int:
        run(tmp_path, [SOFTMAX], (0,))
        return train_claimed(group, part, session)

    with opened(tmp_path, watched, watched.interruption) as session:
        assert run_arms("sinks", [SOFTMAX], (0, 1), session, late).trained == 1
    assert watched.titles == ["group 1 of 1: sinks: softmax x 1"]


@pytest.mark.parametrize(
    ("module", "name", "cut"),
    [(claimed, "remove", {"side_effect": PowerCut}), (saving, "shutil", {"rmtree.side_effect": PowerCut})],
    ids=["before", "in the middle"],
)
def test_a_kill_while_checkpoints_are_removed_leaves_none(tmp_path: Path, module: ModuleType, name: str, cut: Any) -> None:
    def leftovers() -> list[Path]:
        return [path for prefix in (saving.PREFIX, saving.REMOVED) for path in tmp_path.glob(f"sinks/{prefix}*")]

    with mock.patch.object(module, name, **cut), pytest.raises(PowerCut):
        run(tmp_path, [SOFTMAX], (0,))
    assert leftovers()
    assert run(tmp_path, [SOFTMAX], (0,)).trained == 0
    assert not leftovers()


@pytest.mark.slow
def test_what_is_stopped_while_it_measures_keeps_its_last_step(tmp_path: Path) -> None:
    """Models that diverged keep theirs too."""
    arms = [changed(arm.name, arm, measure={"ablation": AblationMeasure(hidden=(1,), map=8)}) for arm in (SOFTMAX, WILD)]

    class Stopped(Watched):
        def status(self, status: str) -> None:
            self.interruption.requested |= status == "measuring"

    with pytest.raises(Interrupted, match="sinks: stopped while measuring; the last step is kept"):
        run(tmp_path, arms, progress=Stopped())
    assert not list(tmp_path.rglob("record.json"))
    rest = Watched()
    assert run(tmp_path, arms, progress=rest).trained == 4
    assert rest.steps == []
    run(tmp_path / "whole", arms)
    assert kept(tmp_path) == kept(tmp_path / "whole")


@pytest.mark.slow
def test_one_diverges_and_the_others_go_on(whole: Path, tmp_path: Path) -> None:
    assert run(tmp_path / "both", [WILD, SOFTMAX], seeds=(0,)).programs == THREE_PROGRAMS
    stored, together = stored_in(tmp_path / "both"), kept(tmp_path / "both")
    wild = stored["wild", 0].record
    assert (wild.status, stored["softmax", 0].record.status) == ("diverged", "finished")
    assert f"at step {wild.steps};" in (wild.message or "")
    assert max(stored["wild", 0].curve().steps) <= wild.steps < STEPS
    assert {entry.value for entry in wild.measurements} == {None}
    # Without the other one it ends early, with the same record.
    run(tmp_path / "alone", [WILD], seeds=(0,))
    assert kept(tmp_path / "alone")["wild", 0] == together["wild", 0]
    # What stays does not depend on it.
    expected = stored_in(whole)["softmax", 0].record
    for entry in stored["softmax", 0].record.measurements:
        assert entry.value == pytest.approx(value_of(expected, entry.quantity, **entry.dims), rel=1e-5, abs=1e-7), entry
    again = run(tmp_path / "both", [WILD, SOFTMAX], seeds=(0,))
    assert (again.trained, again.recorded, again.programs) == (0, 2, ())


def test_the_data_of_an_arm_are_checked_once_for_all_seeds(tmp_path: Path) -> None:
    watched = Watched()
    with (
        opened(tmp_path, watched, watched.interruption) as session,
        mock.patch.object(plan, "check_data", wraps=plan.check_data) as checked,
    ):
        grouped("sinks", [SOFTMAX, LEARNED], (0, 1), tmp_path, tmp_path / CACHE, watched, session.room)
    assert [arm.name for (_, arm), _ in checked.call_args_list] == ["softmax", "learned"]


def test_arms_of_another_structure_have_programs_of_their_own(tmp_path: Path) -> None:
    gated = changed("gated", model={"gate": Gate(kind="output", per="head")}, train={"steps": 1})
    plain = changed("plain", train={"steps": 1})
    watched = Watched()
    outcome = run(tmp_path, [plain, gated], seeds=(0,), progress=watched)
    assert outcome.programs == THREE_PROGRAMS * 2
    assert watched.titles == [f"group {number} of 2: sinks: {name} x 1" for number, name in ((1, "plain"), (2, "gated"))]
    arrays = {name: {key.quantity for key in stored_in(tmp_path)[name, 0].arrays()} for name in ("plain", "gated")}
    assert arrays["gated"] - arrays["plain"] == {"gate_mean", "gate_closed"}


def test_layers_with_a_window_lose_their_own_positions(tmp_path: Path) -> None:
    """Losses of training: at its end both are measured, one without positions."""
    parts = {"never": None, "half": 0.5}
    windowed = {
        name: {"window": 4, "windowed": (True,), "window_position": ROPE(drop_after=part)} for name, part in parts.items()
    }
    run(tmp_path, [changed(name, model=model) for name, model in windowed.items()], seeds=(0,))
    losses = [stored_in(tmp_path)[name, 0].curve().values[reading("train_loss")] for name in parts]
    assert losses[0][1] == losses[1][1]
    assert losses[0][2] != losses[1][2]


def test_members_of_two_sources_are_measured_on_their_own(tmp_path: Path) -> None:
    arms = [changed("with_bos", train={"steps": 1}), changed("without", train={"steps": 1}, data={"bos": "absent"})]
    assert run(tmp_path / "both", arms, seeds=(0,)).programs == THREE_PROGRAMS
    run(tmp_path / "alone", arms[1:], seeds=(0,))
    both, alone = stored_in(tmp_path / "both")["without", 0], stored_in(tmp_path / "alone")["without", 0]
    assert value_of(both.record, "loss") == pytest.approx(value_of(alone.record, "loss"), rel=1e-5)
    assert value_of(both.record, "loss") != value_of(stored_in(tmp_path / "both")["with_bos", 0].record, "loss")


def test_a_group_is_left_to_the_process_that_has_claimed_one_of_its_members(whole: Path, tmp_path: Path) -> None:
    (learned,) = whole.glob("sinks/learned-*")
    place = tmp_path / "sinks" / CLAIMS / f"{learned.name}-s1"
    with Worker(tmp_path) as other, other.claim([place]) or pytest.fail("it is free"):
        assert run(tmp_path, [SOFTMAX, LEARNED]).trained == 0
        assert run(tmp_path, [SOFTMAX]).trained == 2
    assert run(tmp_path, [SOFTMAX, LEARNED]).trained == 2


def test_what_is_taken_over_while_it_trains_is_not_written(whole: Path, tmp_path: Path) -> None:
    """As by a process that was stopped for longer than its heartbeat may pause."""

    class TakenOver(Watched):
        def step(self, done: int, losses: np.ndarray, diverged: Sequence[bool]) -> None:
            super().step(done, losses, diverged)
            for place in tmp_path.glob(f"sinks/{CLAIMS}/*") if done == 3 else ():
                (owner,) = place.iterdir()
                owner.rename(place / "other-1-0")

    watched = TakenOver()
    assert run(tmp_path, [SOFTMAX, LEARNED], progress=watched).trained == 0
    assert watched.steps == [1, 2, 3, 4, 5, 6]
    assert watched.notes[-1].startswith("sinks: learned-") and watched.notes[-1].endswith("was not heard of for too long")
    assert not list(tmp_path.glob("sinks/[!.]*/*/*")) and not list(tmp_path.glob(f"sinks/{saving.PREFIX}*"))
    assert run(tmp_path, [SOFTMAX, LEARNED]).trained == 4  # the other one has no file, so it is dead
    assert kept(tmp_path) == kept(whole)


def test_a_record_says_who_trained_it_from_which_step(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        run(tmp_path, [SOFTMAX], (0,), progress=Watched(stop_at=2))
    run(tmp_path, [SOFTMAX], (0,))
    workers = stored_in(tmp_path)["softmax", 0].record.workers
    assert [(worker.host, worker.pid, worker.first_step) for worker in workers] == [
        (socket.gethostname(), os.getpid(), 0),
        (socket.gethostname(), os.getpid(), 4),
    ]
    pack(tmp_path, "sinks", tmp_path / "packed", ())
    packed = read_records(tmp_path / "packed")[0][0].record.workers
    assert [(worker.host, worker.pid, worker.began) for worker in packed] == [("", 0, worker.began) for worker in workers]


def test_what_the_machine_refuses_is_one_line(tmp_path: Path) -> None:
    huge = changed("huge", model={"width": 1_000_000, "hidden": 1_000_000})
    with pytest.raises(
        UserError, match=r"huge: training 1 at once, of [\d,]+ weights each, needs [\d,.]+ GB per device \(a lower bound\)"
    ) as raised:
        run(tmp_path / "huge", [huge], seeds=(0,))
    assert "\n" not in str(raised.value)
