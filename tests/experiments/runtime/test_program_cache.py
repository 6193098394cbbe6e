"""Where compiled programs are kept, and that they are found there and give the same numbers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from leadline.experiments.runtime.program_cache import LIMIT, OWN_FOLDER, keep_programs, kept_where, program_folder

ROOT = Path(__file__).parents[3]
# What is printed are the result of a program and whether it was taken from the cache.
PROGRAM = """
import jax, jax.numpy as jnp
from leadline.experiments.runtime.program_cache import keep_programs
assert keep_programs(seconds=0.0) is None
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
print(float(jax.jit(lambda x: jnp.sin(x) @ jnp.cos(x))(jnp.arange(9.0))).hex())
print("/jax/compilation_cache/cache_hits" in events)
"""


@pytest.fixture(autouse=True)
def without() -> Iterator[None]:
    """The settings of the tests are put aside for a test, and put back after it."""
    names = ["jax_compilation_cache_dir", "jax_compilation_cache_max_size", "jax_persistent_cache_min_compile_time_secs"]
    before = {name: jax.config.values[name] for name in names}
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_programs_lie_in_the_users_cache_folder(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    assert keep_programs(environment) is None
    folder = program_folder(environment)
    assert kept_where() == str(folder)
    assert folder.is_dir()
    assert folder.parent == tmp_path / "leadline" / "xla"
    assert jax.config.values["jax_compilation_cache_max_size"] == LIMIT


@pytest.mark.parametrize("named", ["", "here"])
def test_a_relative_folder_is_not_the_users(named: str) -> None:
    assert program_folder({"XDG_CACHE_HOME": named}).is_relative_to(Path.home())


def test_a_folder_of_the_users_own_stays(tmp_path: Path) -> None:
    assert keep_programs({OWN_FOLDER: str(tmp_path / "mine"), "XDG_CACHE_HOME": str(tmp_path)}) is None
    assert kept_where() is None
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "leadline").write_text("mine")
    note = keep_programs({"XDG_CACHE_HOME": str(tmp_path)})
    assert note is not None
    assert "cannot be written" in note
    assert "\n" not in note
    assert kept_where() is None


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert "programs are compiled each time (Could not determine home directory.)" in (keep_programs({}) or "")
    assert kept_where() is None


def test_what_was_not_finished_is_removed(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    folder = program_folder(environment)
    folder.mkdir(parents=True)
    for name in ("killed-cache", "whole-cache", "whole-atime", "begun-cache"):
        (folder / name).touch()
        os.utime(folder / name, (0, 0))
    (folder / "begun-cache").touch()
    keep_programs(environment)
    assert sorted(path.name for path in folder.iterdir()) == ["begun-cache", "whole-atime", "whole-cache"]


def test_what_another_command_removes_at_the_same_time_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment, exists = {"XDG_CACHE_HOME": str(tmp_path)}, Path.exists
    folder = program_folder(environment)
    folder.mkdir(parents=True)
    (folder / "killed-cache").touch()

    def late(path: Path) -> bool:
        if path.name == "killed-atime":
            (folder / "killed-cache").unlink()
        return exists(path)

    monkeypatch.setattr(Path, "exists", late)
    assert keep_programs(environment) is None
    assert kept_where() == str(folder)


def test_a_program_that_is_kept_gives_the_same_number(tmp_path: Path) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    printed = []
    for _ in range(2):
        command = [sys.executable, "-W", "error", "-c", PROGRAM]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        printed.append(done.stdout.split())
    assert [line[1] for line in printed] == ["False", "True"]
    assert printed[0][0] == printed[1][0]
