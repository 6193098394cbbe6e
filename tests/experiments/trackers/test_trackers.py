"""Each tracker writes what can be read back, and is refused where it cannot be used."""

import struct
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.tracking import Run, Tracking
from leadline.experiments.trackers.registry import TRACKERS, open_trackers

ARM = "gated-0123456789ab"
CONFIG = {"model": {"width": 8, "position": {"kind": "rope"}}, "data": {"corpus": ["a.txt"]}}
LOSSES, SINKS = np.array([3.0, 2.0, 1.0]), np.array([np.nan, 0.25, 0.5])
POINTS = {0: {"loss": 3.0}, 10: {"loss": 2.0, "sink_rate/layer_1": 0.25}, 20: {"loss": 1.0, "sink_rate/layer_1": 0.5}}
FINAL = {"loss": 0.75, "perplexity/extension_yarn/length_512": 2.5}


def _told(name: str, results: Path) -> list[str]:
    """What is said while two seeds are tracked side by side."""
    module = TRACKERS[name][0]
    pytest.importorskip(module, reason=f"{module} is not installed (pip install -e '.[{name}]')")
    told = list[str]()
    tracking = Tracking(name, open_trackers([name], results)[name], told.append)
    runs = [Run("mine", "gated", "0123456789ab", seed, lambda: CONFIG) for seed in (0, 1)]
    for points in (1, 3):
        for run in runs:
            steps = np.array([0, 10, 20])[:points]
            tracking.curve(run, steps, {"loss": LOSSES[:points], "sink_rate/layer_1": SINKS[:points]})
    for run in runs:
        tracking.final(run, FINAL)
    tracking.close()
    return told


def test_tensorboard_has_scalars_by_step_and_the_settings(tmp_path: Path) -> None:
    assert _told("tensorboard", tmp_path) == [f"--tracker tensorboard: tensorboard --logdir {tmp_path / 'tensorboard'}"]
    event_of = pytest.importorskip("tensorboardX.proto.event_pb2").Event.FromString
    for seed in (0, 1):
        (path,) = (tmp_path / "tensorboard" / "mine" / ARM / f"s{seed}").glob("events.out.tfevents.*")
        events = [event_of(record) for record in _records(path.read_bytes())]
        points: dict[int, dict[str, float]] = {}
        texts = []
        for event in events:
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    points.setdefault(event.step, {})[value.tag] = value.simple_value
                else:
                    texts += value.tensor.string_val
        assert points == POINTS | {20: POINTS[20] | {f"final/{name}": number for name, number in FINAL.items()}}
        assert [b'"kind": "rope"' in text for text in texts] == [True]


def _records(data: bytes) -> list[bytes]:
    """The records of a TFRecord file: length, its sum, content, its sum."""
    records = []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        records.append(data[12 : 12 + length])
        data = data[16 + length :]
    return records


def test_wandb_keeps_history_summary_and_settings_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert _told("wandb", tmp_path) == [f"--tracker wandb: wandb sync {tmp_path / 'wandb' / 'offline-run-*'}"]
    record_of = pytest.importorskip("wandb.proto.wandb_internal_pb2").Record.FromString
    names = []
    for path in sorted(tmp_path.glob("wandb/offline-run-*/run-*.wandb")):
        records = _closed(path, record_of)
        (run,) = [record.run for record in records if record.WhichOneof("record_type") == "run"]
        names.append((run.project, run.run_group, run.display_name))
        assert {item.key or item.nested_key[0]: item.value_json for item in run.config.update}["data"] == '{"corpus":["a.txt"]}'
        history = {record.history.step.num: _numbers(record.history.item) for record in records if record.HasField("history")}
        assert history == POINTS
        summary: dict[str, float] = {}
        for record in records:
            summary |= _numbers(record.summary.update)
        assert summary == POINTS[20] | {f"final/{name}": number for name, number in FINAL.items()}
    assert sorted(names) == [("mine", "gated", f"{ARM} s{seed}") for seed in (0, 1)]


def _numbers(items: Any) -> Mapping[str, float]:
    pairs = {item.key or "/".join(item.nested_key): float(item.value_json) for item in items if item.value_json[0] != "{"}
    return {key: number for key, number in pairs.items() if not key.startswith("_")}


def _closed(path: Path, record_of: Callable[[bytes], Any], head: int = 7) -> list[Any]:
    """The records of a small LevelDB log, each with a sum, its length and its kind, once the last of them is there.

    The library closes the file a moment after a run has finished.
    """
    until = time.monotonic() + 30.0
    while True:
        data, place, records = path.read_bytes(), head, []
        while place + head <= len(data):
            length, kind = struct.unpack("<HB", data[place + 4 : place + head])
            assert kind == 1  # whole: all of them lie in the first block
            records.append(record_of(data[place + head : place + head + length]))
            place += head + length
        if any(record.WhichOneof("record_type") == "exit" for record in records):
            return records
        assert time.monotonic() < until, f"{path} is not closed"
        time.sleep(0.05)


def test_trackio_has_metrics_by_step_and_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "modules", {name: module for name, module in sys.modules.items() if "trackio" not in name})
    assert _told("trackio", tmp_path) == ["--tracker trackio: trackio show --project mine"]
    assert capsys.readouterr().out == ""
    from trackio.sqlite_storage import SQLiteStorage

    for seed in (0, 1):
        name = f"{ARM} s{seed}"
        settings = SQLiteStorage.get_run_config("mine", name)
        assert settings is not None and {key: settings[key] for key in CONFIG} == CONFIG
        points: dict[int, dict[str, float]] = {}
        for entry in SQLiteStorage.get_logs("mine", name):
            points.setdefault(entry["step"], {}).update({k: v for k, v in entry.items() if k not in ("step", "timestamp")})
        assert points == POINTS | {20: POINTS[20] | {f"final/{key}": number for key, number in FINAL.items()}}


@pytest.mark.parametrize(("name", "module"), [(name, module) for name, (module, _) in TRACKERS.items()])
def test_what_is_not_installed_is_refused_with_its_remedy(
    name: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=rf"--tracker {name}: .*; pip install -e '\.\[{name}\]' in a clone"):
        open_trackers([name], tmp_path)


def test_a_name_that_is_no_trackers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such tracker; choose from tensorboard, wandb, trackio"):
        open_trackers(["tensorbord"], tmp_path)
