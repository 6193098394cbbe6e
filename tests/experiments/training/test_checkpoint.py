"""Checkpoints: exact, verified, and never lost to the next one."""

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from leadline.experiments.runtime.errors import UserError
from leadline.experiments.training import checkpoint

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


def _equal(a: Any, b: Any) -> None:
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            _equal(a[key], b[key])
    elif isinstance(a, list | tuple):
        for left, right in zip(a, b, strict=True):
            _equal(left, right)
    elif a is None:
        assert b is None
    else:
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tobytes() == b.tobytes()


def _largest_file(folder: Path) -> Path:
    return max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)


def _flip(folder: Path, step: int) -> None:
    path = _largest_file(folder / str(step))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def _truncate(folder: Path, step: int) -> None:
    path = _largest_file(folder / str(step))
    path.write_bytes(path.read_bytes()[:-1])


def _remove_file(folder: Path, step: int) -> None:
    _largest_file(folder / str(step)).unlink()


def _add_file(folder: Path, step: int) -> None:
    (folder / str(step) / "more").write_bytes(b"x")


def _remove_manifest(folder: Path, step: int) -> None:
    (folder / f"manifest-{step}.json").unlink()


DAMAGES = [_flip, _truncate, _remove_file, _add_file, _remove_manifest]


def test_round_trip_is_exact(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "checkpoint"
    assert checkpoint.latest(folder) == (None, [])
    checkpoint.save(folder, 2, _state(), EXTRA)
    assert checkpoint.latest(folder) == (2, [])
    _equal(checkpoint.restore(folder, 2, _state(1)), _state())
    assert checkpoint.extra_of(folder, 2) == EXTRA


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    for step in (2, 4, 6):
        checkpoint.save(tmp_path, step, _state(step), EXTRA)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["4", "6", "manifest-4.json", "manifest-6.json"]
    for step in (4, 6):
        _equal(checkpoint.restore(tmp_path, step, _state()), _state(step))


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_what_is_damaged_is_passed_over_and_replaced(tmp_path: Path, damage) -> None:
    for step in (2, 4):
        checkpoint.save(tmp_path, step, _state(step), EXTRA)
    damage(tmp_path, 4)
    step, notes = checkpoint.latest(tmp_path)
    assert step == 2
    assert len(notes) == 1
    assert str(tmp_path / "4") in notes[0]
    assert "passed over" in notes[0]
    _equal(checkpoint.restore(tmp_path, 2, _state()), _state(2))
    # On the way back to step 4 an earlier step is kept as well, and then step 4 is.
    for step in (3, 4):
        checkpoint.save(tmp_path, step, _state(step), EXTRA)
        assert checkpoint.latest(tmp_path) == (step, [])
        _equal(checkpoint.restore(tmp_path, step, _state()), _state(step))


def test_every_flipped_bit_of_a_manifest_is_noticed(tmp_path: Path) -> None:
    for step in (2, 4):
        checkpoint.save(tmp_path, step, _state(step), EXTRA)
    manifest = tmp_path / "manifest-4.json"
    whole = manifest.read_bytes()
    for place in range(0, len(whole), 50):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place // 50 % 8)
        manifest.write_bytes(damaged)
        step, (note,) = checkpoint.latest(tmp_path)
        assert step == 2
        assert f"{tmp_path / '4'}: its manifest is damaged" in note
        assert "\n" not in note
    manifest.write_bytes(whole)
    assert checkpoint.latest(tmp_path) == (4, [])


def test_saving_a_whole_step_again_changes_nothing(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 2, _state(), EXTRA)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    checkpoint.save(tmp_path, 2, _state(), EXTRA)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("change", ["shape", "dtype", "name"])
def test_arrays_of_another_model(tmp_path: Path, change: str) -> None:
    checkpoint.save(tmp_path, 2, _state(), EXTRA)
    other = _state()
    match change:
        case "shape":
            other["weights"]["a"] = np.zeros((4, 3), np.float32)
        case "dtype":
            other["count"] = np.array(7, np.int16)
        case "name":
            other["counter"] = other.pop("count")
    with pytest.raises(UserError, match="arrays of another model; delete "):
        checkpoint.restore(tmp_path, 2, other)


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text("in the way")
    with pytest.raises(UserError, match=r"checkpoint of step 2 cannot be written"):
        checkpoint.save(tmp_path / "checkpoint", 2, _state(), EXTRA)
    assert (tmp_path / "checkpoint").read_text() == "in the way"


def test_a_disk_that_refuses_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save(tmp_path, 2, _state(2), EXTRA)
    replace = Path.replace

    def refuse(self: Path, target: Path) -> Path:
        if Path(target).name == "manifest-4.json":
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(UserError, match=r"step 4 cannot be written .*No space left.*free the disk"):
        checkpoint.save(tmp_path, 4, _state(4), EXTRA)
    monkeypatch.undo()
    assert checkpoint.latest(tmp_path)[0] == 2
    _equal(checkpoint.restore(tmp_path, 2, _state()), _state(2))


def test_orbax_on_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save(tmp_path, 2, _state(2), EXTRA)

    def refuse(*_: object, **__: object) -> bool:
        raise ValueError('RESOURCE_EXHAUSTED: Error writing "a/0": No space left on device\nand more lines')

    monkeypatch.setattr(checkpoint.ocp.CheckpointManager, "save", refuse)
    with pytest.raises(UserError, match=r"step 4 cannot be written \(RESOURCE_EXHAUSTED.*left on device\); free the disk$"):
        checkpoint.save(tmp_path, 4, _state(4), EXTRA)
    assert checkpoint.latest(tmp_path)[0] == 2


def test_the_manifest_names_every_file(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 2, _state(), EXTRA)
    manifest = json.loads((tmp_path / "manifest-2.json").read_text())
    files = {path.relative_to(tmp_path / "2").as_posix() for path in (tmp_path / "2").rglob("*") if path.is_file()}
    assert set(manifest["files"]) == files
    assert manifest["arrays"]["['count']"] == "() int32"
