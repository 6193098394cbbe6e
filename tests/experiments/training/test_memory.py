"""Groups are cut to what the memory holds, by a lower bound, by the compiler's analysis, or by an estimate from the trace."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

import pytest
from rich.console import Console

from leadline.experiments.data.source import CACHE
from leadline.experiments.runtime.devices import Accelerator
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interrupted
from leadline.experiments.training import memory
from leadline.experiments.training.group import Member, RunGroup, run_group
from leadline.experiments.training.memory import Room, fitting_groups, least_memory, program_memory, traced_memory
from leadline.experiments.training.plan import grouped, members_of
from tests.experiments.training.runs import SOFTMAX, Watched, changed, kept, run

pytestmark = pytest.mark.usefixtures("in_use")
SIX = range(6)


@pytest.fixture
def members(tmp_path: Path) -> list[Member]:
    return members_of("sinks", [SOFTMAX], SIX, tmp_path, tmp_path / CACHE, Progress(Console(quiet=True)))


def _with(available: float) -> AbstractContextManager[object]:
    return mock.patch.object(memory, "available_memory", lambda room: available)  # noqa: ARG005


def _sizes(groups: list[RunGroup]) -> list[int]:
    return [len(group.members) for group in groups]


def test_models_of_one_structure_are_one_group_where_there_is_room(members: list[Member]) -> None:
    with mock.patch.object(memory, "program_memory", side_effect=AssertionError("nothing need be compiled")):
        assert _sizes(fitting_groups("sinks", members, Room())) == [6]
        assert _sizes(fitting_groups("sinks", members, Room(models=4))) == [4, 2]


def test_groups_are_cut_to_what_their_compiled_program_takes(members: list[Member]) -> None:
    whole = program_memory(run_group("sinks", members))
    with _with(0.8 * whole / memory.SHARE):
        groups = fitting_groups("sinks", members, Room())
        assert [member for group in groups for member in group.members] == members
        assert 1 < len(groups) < 6
        assert program_memory(groups[0]) <= 0.8 * whole
        assert program_memory(run_group("sinks", members[: len(groups[0].members) + 2])) > 0.8 * whole
        assert _sizes(fitting_groups("sinks", members, Room(models=2))) == [2, 2, 2]


@pytest.mark.slow
def test_a_model_that_does_not_fit_alone_is_refused_before_training(members: list[Member]) -> None:
    alone = program_memory(run_group("sinks", members[:1]))
    with (
        _with(0.99 * alone),
        pytest.raises(UserError, match=r"GB per device \(of its compiled step\), which has 0.0 GB.* make"),
    ):
        fitting_groups("sinks", members, Room())
    with _with(1.01 * alone):
        assert _sizes(fitting_groups("sinks", members, Room())) == [1] * 6


def test_a_device_that_is_not_here_is_planned_for_by_an_estimate(members: list[Member]) -> None:
    small = Accelerator("Abacus", 1.0, 1.0, 1.0, 1.0, "invented")
    of_a_model = traced_memory(run_group("sinks", members), Room(device=small)) / 6
    with _with(memory.UNSURE * 2.5 * of_a_model / memory.SHARE):
        assert _sizes(fitting_groups("sinks", members, Room(device=small))) == [2, 2, 2]
        assert _sizes(fitting_groups("sinks", members, Room(device=small, devices=2))) == [4, 2]


def test_the_estimate_of_the_trace_is_near_the_analysis_of_the_compiler(members: list[Member]) -> None:
    group = run_group("sinks", members)
    least, traced, compiled = least_memory(group, Room()), traced_memory(group, Room()), program_memory(group)
    assert least < traced < 1.5 * compiled
    assert compiled < memory.UNSURE * traced


def test_where_the_compiler_finds_no_room_half_as_many_are_tried(members: list[Member]) -> None:
    def compiled(group: RunGroup) -> float:
        return float("inf") if len(group.members) > 2 else 1.0

    with _with(2 * least_memory(run_group("sinks", members), Room())), mock.patch.object(memory, "program_memory", compiled):
        assert _sizes(fitting_groups("sinks", members, Room())) == [1] * 6


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Path]:
    """A folder in which a group of two models was stopped."""
    with pytest.raises(Interrupted):
        run(tmp_path, [SOFTMAX], progress=Watched(stop_at=2))
    yield tmp_path


@pytest.mark.slow
def test_a_group_that_has_begun_keeps_its_members_where_a_new_one_would_be_cut(stopped: Path, tmp_path: Path) -> None:
    progress = Progress(Console(quiet=True))
    _, groups = grouped("sinks", [SOFTMAX], range(4), stopped, stopped / CACHE, progress, Room(models=1))
    assert [[member.seed for member in group.members] for group in groups] == [[0, 1], [2], [3]]
    watched = Watched()
    run(stopped, [SOFTMAX], progress=watched)
    assert watched.steps == [5, 6]
    run(tmp_path / "whole", [SOFTMAX])
    assert kept(stopped) == kept(tmp_path / "whole")


def test_a_group_that_has_begun_and_does_not_fit_says_how_to_begin_anew(stopped: Path) -> None:
    with _with(10.0), pytest.raises(UserError, match=r"go on where there is more, or delete .*\.group-\w+ to begin anew"):
        grouped("sinks", [SOFTMAX], (0, 1), stopped, stopped / CACHE, Progress(Console(quiet=True)), Room())


def test_another_structure_is_another_group(tmp_path: Path) -> None:
    arms = [SOFTMAX, changed("wide", model={"width": 16})]
    _, groups = grouped("sinks", arms, (0, 1), tmp_path, tmp_path / CACHE, Progress(Console(quiet=True)), Room())
    assert _sizes(groups) == [2, 2]
