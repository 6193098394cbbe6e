"""Executors by name, and what a task carries to a worker."""

import json
import math
from pathlib import Path

import pytest

from leadline.experiments.config.attention import FixedSink
from leadline.experiments.executors.local import Local
from leadline.experiments.executors.registry import Options, open_executor
from leadline.experiments.executors.task import Task, task_of, work
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.signals import Interruption
from leadline.experiments.training.group import RunGroup
from leadline.experiments.training.memory import Room
from leadline.experiments.training.plan import run_arms
from leadline.experiments.training.session import Session, opened
from tests.experiments.called import Called
from tests.experiments.training.runs import SOFTMAX, Watched, changed, kept, run

pytestmark = pytest.mark.usefixtures("in_use")


def test_a_run_trains_in_its_process_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    executor = open_executor(Options("local", 7.0, 4), tmp_path)
    assert isinstance(executor, Local) and (executor.expiry, executor.room) == (7.0, Room(models=4))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (Options("cloud", 60.0), "--executor cloud: there is no such executor; choose from local, ray, slurm"),
        (Options("slurm", 60.0, slurm=["gpu"]), "--slurm gpu: say KEY=VALUE, as in --slurm partition=gpu"),
        (Options("slurm", 60.0, gpus=0.5), "--gpus 0.5: Slurm lends whole accelerators; give a whole number"),
    ],
)
def test_what_there_is_not_is_one_line(tmp_path: Path, options: Options, said: str) -> None:
    with pytest.raises(UserError) as raised:
        open_executor(options, tmp_path)
    assert str(raised.value) == said


def test_the_command_line_names_the_executors(called: Called, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('study = "a"\nexact = { kind = "base_bound", head_dims = [32], lengths = [64] }\n')
    assert "choose from local, ray, slurm" in called.mistake(
        "run", tmp_path / "a.toml", "--executor", "nothing", "--results", tmp_path / "results"
    )


def test_a_task_is_json_from_which_a_worker_makes_the_same_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An arm with a logit of -inf, which JSON has not, and a group that is cut."""
    arms = [SOFTMAX, changed("off", model={"sink": FixedSink(logit=-math.inf)})]
    tasks: list[Task] = []

    def train(group: RunGroup, part: str, session: Session) -> int:  # noqa: ARG001
        tasks.append(json.loads(json.dumps(task_of(group, session, 1), allow_nan=False)))
        return 0

    monkeypatch.setattr("leadline.experiments.executors.task.start_jax", lambda devices: None)  # noqa: ARG005
    watched = Watched()
    with opened(tmp_path / "there", watched, watched.interruption, room=Room(models=2)) as session:
        assert len(run_arms("sinks", arms, (0, 1), session, train).waiting) == 2
    assert [len(task["members"]) for task in tasks] == [2, 2]
    assert [work(task, Interruption()) for task in tasks] == [2, 2]
    for arm in arms:
        run(tmp_path / "here", [arm])
    assert kept(tmp_path / "there") == kept(tmp_path / "here")
    assert [work(task, Interruption()) for task in tasks] == [0, 0]
