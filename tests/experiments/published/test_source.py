"""What users name, and what is said when it is not there."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leadline.experiments.published.open import open_checkpoint
from leadline.experiments.published.source import located
from leadline.experiments.runtime.errors import UserError
from tests.experiments.published.tiny import safetensors_folder, tiny_gguf

WEIGHTS = {"a": np.ones(3, np.float32)}


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def _install(packages: Path, *files: str) -> None:
    """A distribution `tiny-model` with these files listed."""
    information = packages / "tiny_model-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n", encoding="utf-8")
    (information / "RECORD").write_text("".join(f"{file},,\n" for file in files), encoding="utf-8")


def test_a_folder_and_a_file_are_opened(tmp_path: Path) -> None:
    folder = safetensors_folder(tmp_path / "Tiny-1.5", WEIGHTS)
    path = tiny_gguf(tmp_path / "Tiny.Q8_0.gguf")
    assert open_checkpoint(str(folder)).name == "Tiny-1.5"
    assert open_checkpoint(str(path)).name == "Tiny.Q8_0"


def test_a_package_with_one_file_is_opened_and_not_imported(packages: Path) -> None:
    (packages / "tiny_model").mkdir()
    (packages / "tiny_model" / "__init__.py").write_text("raise RuntimeError", encoding="utf-8")
    tiny_gguf(packages / "tiny_model" / "Tiny.gguf")
    _install(packages, "tiny_model/__init__.py", "tiny_model/Tiny.gguf")
    assert open_checkpoint("package:tiny-model").name == "Tiny"
    assert "tiny_model" not in sys.modules


def test_a_package_with_one_folder_is_opened(packages: Path) -> None:
    safetensors_folder(packages / "tiny_model", WEIGHTS)
    _install(packages, "tiny_model/config.json", "tiny_model/model.safetensors", "tiny_model/more/config.json")
    assert set(open_checkpoint("package:tiny-model").entries) == {"a"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ((), r"must carry one model and has 0 \(none\)"),
        (("a/x.gguf", "a/y.gguf"), r"must carry one model and has 2 \(a/x\.gguf, a/y\.gguf\)"),
        (("a/x.gguf", "b/config.json", "b/model.safetensors"), r"has 2 \(a/x\.gguf, b\)"),
        (("a/x.gguf",), r"x\.gguf is missing; pip install --no-deps --force-reinstall tiny-model"),
    ],
)
def test_a_package_without_just_one_model_is_refused(packages: Path, files: tuple[str, ...], message: str) -> None:
    _install(packages, *files)
    with pytest.raises(UserError, match=f"package:tiny-model: .*{message}"):
        located("package:tiny-model")


def test_a_package_that_is_absent_is_told_how_to_get_it() -> None:
    with pytest.raises(
        UserError, match="package:no-such-model: not installed: pip install --no-deps no-such-model, if that is its name"
    ):
        located("package:no-such-model")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none", "no such file or folder; models elsewhere are hub:NAME"),
        ("empty", r"no config\.json in this folder; it needs that and the weights"),
        ("ggufs", r"no config\.json in this folder; name the file itself: .*a\.gguf"),
        ("model.bin", "pickled weights, which are not read"),
        ("model.safetensors", r"neither a folder nor a \.gguf file; of safetensors, name the folder"),
        ("package:", "lacks a name, as in package:NAME"),
        ("hub:", "lacks a name, as in hub:OWNER/NAME"),
        ("hub:@v2", "lacks a name, as in hub:OWNER/NAME"),
    ],
)
def test_what_is_no_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("empty", "ggufs"):
        Path(folder).mkdir()
    for file in ("ggufs/a.gguf", "model.bin", "model.safetensors"):
        Path(file).touch()
    with pytest.raises(UserError, match=f"^{name.removesuffix(':')}: .*{message}"):
        located(name)


class _Hub:
    """Stands for the Hub: the folder that it gives, and what it was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.arguments = folder, {}

    def snapshot_download(self, name: str, **arguments: Any) -> str:
        self.arguments = {"name": name, **arguments}
        return str(self.folder)


@pytest.mark.parametrize(("spec", "revision"), [("hub:maker/Tiny-1B", None), ("hub:maker/Tiny-1B@v2", "v2")])
def test_the_hub_is_asked_for_safetensors_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, revision: str | None
) -> None:
    hub = _Hub(safetensors_folder(tmp_path, WEIGHTS))
    monkeypatch.setattr("huggingface_hub.snapshot_download", hub.snapshot_download)
    assert open_checkpoint(spec).name == "Tiny-1B"
    assert (hub.arguments["name"], hub.arguments["revision"]) == ("maker/Tiny-1B", revision)
    assert _taken(hub.arguments, "config.json", "model-00001-of-00002.safetensors", "tokenizer.json", "tokenizer.model") == 4
    assert (
        _taken(hub.arguments, "pytorch_model.bin", "modeling_tiny.py", "original/model.safetensors", "consolidated.safetensors")
        == 0
    )


def _taken(arguments: dict[str, Any], *files: str) -> int:
    """How many of these files the library would download."""
    from huggingface_hub.utils import filter_repo_objects

    patterns = {name: arguments[name] for name in ("allow_patterns", "ignore_patterns")}
    return len(list(filter_repo_objects(files, **patterns)))


def test_a_model_of_the_hub_without_safetensors_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.snapshot_download", _Hub(tmp_path).snapshot_download)
    with pytest.raises(UserError, match="hub:maker/tiny: no safetensors there; pickle is not read"):
        located("hub:maker/tiny")


@pytest.mark.parametrize("spec", ["hub:maker/tiny", "hub:a/b/c"])
def test_what_the_hub_refuses_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spec: str) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=rf"^{re.escape(spec)}: cannot be downloaded \(.+\); check name, revision"):
        located(spec)


@pytest.mark.parametrize(
    ("package", "spec"), [("huggingface_hub", "hub:maker/tiny"), ("safetensors", "{folder}"), ("gguf", "{folder}/a.gguf")]
)
def test_a_library_that_is_absent_is_told_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, spec: str
) -> None:
    tiny_gguf(safetensors_folder(tmp_path, WEIGHTS) / "a.gguf")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"needs the package {package} .*; pip install -e '\.\[published\]' in a clone"):
        open_checkpoint(spec.format(folder=tmp_path))
