"""Checkpoints: exact, verified, and never lost to the next one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.records.json_file import file_sha256
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.worker import Lost
from leadline.experiments.training import checkpoint
from tests.experiments.synthetic_records import flipped

SAVER = checkpoint.ocp.CheckpointManager
EXTRA = {"curve": [{"step": 0, "loss": 1.5}, {"step": 2, "loss": None}], "seconds": 0.25}


def _state(seed: int = 0) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    return {
        "weights": {"a": generator.normal(size=(3, 4)).astype(np.float32), "none": None},
        "special": np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], np.float32),
        "half": np.asarray(jnp.asarray(generator.normal(size=5), jnp.bfloat16)),
        "count": np.array(7, np.int32),
        "many": (np.arange(3, dtype=np.int32), np.zeros((1, 2), np.float32)),
    }


def _assert_restored(folder: Path, step: int, seed: int) -> None:
    """To the bit, with the types of the arrays and the structure of the tree."""
    restored, expected = checkpoint.restore(folder, step, _state(99)), _state(seed)
    assert jax.tree.structure(restored) == jax.tree.structure(expected)
    bits = [[(leaf.dtype, leaf.shape, leaf.tobytes()) for leaf in jax.tree.leaves(tree)] for tree in (restored, expected)]
    assert bits[0] == bits[1]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of checkpoints of steps 2 and 4."""
    folder = tmp_path_factory.mktemp("run") / "checkpoint"
    assert checkpoint.latest(folder) == (None, [])
    for step in (2, 4):
        checkpoint.save(folder, step, _state(step), EXTRA)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return shutil.copytree(saved, tmp_path / "checkpoint")


def test_the_last_two_are_kept_exactly_and_whole(folder: Path) -> None:
    checkpoint.save(folder, 6, _state(6), EXTRA)
    assert sorted(path.name for path in folder.iterdir()) == ["4", "6", "manifest-4.json", "manifest-6.json"]
    assert checkpoint.latest(folder) == (6, [])
    for step in (4, 6):
        _assert_restored(folder, step, step)
        assert checkpoint.extra_of(folder, step) == EXTRA
    manifest = json.loads((folder / "manifest-4.json").read_text())
    files = {path.relative_to(folder / "4").as_posix() for path in (folder / "4").rglob("*") if path.is_file()}
    assert set(manifest["files"]) == files
    assert manifest["arrays"]["['count']"] == "() int32"


DAMAGES: dict[str, tuple[Callable[[Path, Path], object], tuple[int, ...]]] = {
    "a flipped bit": (lambda _, largest: next(flipped(largest)), (3, 4)),
    "a byte less": (lambda _, largest: largest.write_bytes(largest.read_bytes()[:-1]), (4,)),
    "a file less": (lambda _, largest: largest.unlink(), (4,)),
    "a file more": (lambda folder, _: (folder / "4" / "more").write_bytes(b"x"), (4,)),
    "no manifest": (lambda folder, _: (folder / "manifest-4.json").unlink(), (4,)),
}


@pytest.mark.parametrize(("damage", "way_back"), DAMAGES.values(), ids=DAMAGES)
def test_what_is_damaged_is_passed_over_and_replaced(
    folder: Path, damage: Callable[[Path, Path], object], way_back: tuple[int, ...]
) -> None:
    damage(folder, max((path for path in (folder / "4").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size))
    step, (note,) = checkpoint.latest(folder)
    assert step == 2
    assert str(folder / "4") in note
    assert "passed over" in note
    _assert_restored(folder, 2, 2)
    for step in way_back:
        checkpoint.save(folder, step, _state(step), EXTRA)
        assert checkpoint.latest(folder) == (step, [])
        _assert_restored(folder, step, step)


def test_what_a_run_removes_while_it_is_read_is_passed_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def removed(path: Path) -> str:
        shutil.rmtree(folder / "4", ignore_errors=True)
        return file_sha256(path)

    monkeypatch.setattr(checkpoint, "file_sha256", removed)
    step, (note,) = checkpoint.latest(folder)
    assert step == 2
    assert f"{folder / '4'}: a file of it cannot be read" in note


def test_every_flipped_bit_of_a_manifest_is_noticed(folder: Path) -> None:
    for _ in flipped(folder / "manifest-4.json", every=200):
        step, (note,) = checkpoint.latest(folder)
        assert step == 2
        assert f"{folder / '4'}: its manifest is damaged" in note
        assert "\n" not in note
    assert checkpoint.latest(folder) == (4, [])


def test_a_step_that_is_there_is_replaced(folder: Path) -> None:
    checkpoint.save(folder, 4, _state(5), EXTRA | {"seconds": 1.0})
    assert checkpoint.latest(folder) == (4, [])
    assert checkpoint.extra_of(folder, 4)["seconds"] == 1.0
    _assert_restored(folder, 4, 5)


def test_what_the_check_raises_leaves_the_checkpoint_before(folder: Path) -> None:
    def lost() -> None:
        raise Lost

    with pytest.raises(Lost):
        checkpoint.save(folder, 6, _state(6), EXTRA, lost)
    assert checkpoint.latest(folder) == (4, [])


@pytest.mark.parametrize(
    "change", [{"special": np.zeros(6, np.float32)}, {"count": np.array(7, np.int16)}, {"counter": np.int32(7)}]
)
def test_arrays_of_another_model_are_named(folder: Path, change: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="arrays of another model; delete "):
        checkpoint.restore(folder, 4, _state() | change)


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text("in the way")
    with pytest.raises(UserError, match=r"checkpoint of step 2 cannot be written"):
        checkpoint.save(tmp_path / "checkpoint", 2, _state(), EXTRA)
    assert (tmp_path / "checkpoint").read_text() == "in the way"


def test_a_disk_without_room_is_asked_before_anything_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10))  # noqa: ARG005
    monkeypatch.setattr(checkpoint.ocp.CheckpointManager, "save", None)
    with pytest.raises(UserError, match=r"step 6 cannot be written \(.*No space left on device for 0\.0 MB\); free the disk$"):
        checkpoint.save(folder, 6, _state(6), EXTRA)
    assert checkpoint.latest(folder)[0] == 4


@pytest.mark.parametrize(
    ("place", "name", "error", "told"),
    [
        (Path, "replace", OSError(28, "No space left on device"), r"No space left on device.*\); free the disk$"),
        (SAVER, "save", ValueError('"a/0": No space left on device\nmore'), r"No space left on device\); free the disk$"),
        (SAVER, "save", ValueError('"a/0": Input/output error'), r"Input/output error\); check the folder"),
    ],
    ids=["manifest", "arrays", "input and output"],
)
def test_a_disk_that_refuses_is_one_line_and_leaves_the_checkpoint_before(
    folder: Path, monkeypatch: pytest.MonkeyPatch, place: type, name: str, error: Exception, told: str
) -> None:
    write = getattr(place, name)

    def refuse(self: Any, target: Any, *more: Any, **named: Any) -> Any:
        if place is not Path or Path(target).name == "manifest-6.json":
            raise error
        return write(self, target, *more, **named)

    with monkeypatch.context() as patch, pytest.raises(UserError) as raised:
        patch.setattr(place, name, refuse)
        checkpoint.save(folder, 6, _state(6), EXTRA)
    assert raised.match(rf"step 6 cannot be written \(.*{told}")
    assert "\n" not in str(raised.value)
    assert checkpoint.latest(folder)[0] == 4
    _assert_restored(folder, 4, 4)
