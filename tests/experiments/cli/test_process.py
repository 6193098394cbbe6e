"""The command line in a process of its own: what it imports, what it says of the machine, and how it is stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

from tests.experiments.suite import suite

ROOT = Path(__file__).parents[3]
LEADLINE = (sys.executable, "-m", "leadline")
TIMEOUT = 120
COMMANDS = ("run", "report", "claims", "publish", "bound", "doctor", "generate", "tokens", "tokenizer", "bench")


def quick() -> dict[str, str]:
    """Of a process whose programs need not be fast, as in `quick_to_compile`, and are kept where the tests keep theirs."""
    folder = jax.config.values["jax_compilation_cache_dir"]
    return os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "JAX_COMPILATION_CACHE_DIR": folder}


def process(*words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    return subprocess.run(words, cwd=folder, env=quick(), capture_output=True, text=True, timeout=TIMEOUT, check=False)


def test_help_is_light() -> None:
    script = (
        "import sys; from leadline.experiments.cli.main import main\n"
        "sys.argv = ['leadline', '--help']\n"
        "try: main()\n"
        "except SystemExit as stopped: code = stopped.code\n"
        "heavy = {'jax', 'flax', 'numpy', 'matplotlib', 'pydantic', 'optax'} & set(sys.modules)\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)"
    )
    done = process(sys.executable, "-c", script)
    assert (done.returncode, done.stderr) == (0, "")
    assert [command for command in COMMANDS if f" {command} " not in done.stdout] == []
    assert process(*LEADLINE, "--help").stdout == done.stdout.replace("Usage: leadline", "Usage: python -m leadline")


def test_a_name_that_is_no_text_is_shown_by_its_bytes(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9"))
    folder.mkdir()
    done = process(*LEADLINE, "status", str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    assert "caf\\udce9; leadline show" in done.stdout


def test_a_full_disk_below_standard_output_is_named() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            (*LEADLINE, "status", "."), cwd=ROOT, env=quick(), stdout=full, stderr=subprocess.PIPE, timeout=TIMEOUT, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"leadline: standard output or a file: No space left on device\n")


def test_reading_a_configuration_imports_no_jax() -> None:
    script = "import sys, leadline.experiments.config.load; sys.exit('jax' in sys.modules)"
    assert process(sys.executable, "-c", script).returncode == 0


def test_only_leadline_is_installed(tmp_path: Path) -> None:
    script = (
        "from importlib.util import find_spec\n"
        "names = ('leadline', 'leadline.model', 'leadline.tokenization', 'leadline.experiments')\n"
        "print(all(map(find_spec, names)), *map(find_spec, ('model', 'tokenization', 'experiments')))"
    )
    assert process(sys.executable, "-c", script, folder=tmp_path).stdout == "True None None None\n"


@pytest.mark.slow
def test_doctor_says_versions_and_devices() -> None:
    done = process(*LEADLINE, "doctor", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    facts = json.loads(done.stdout)
    assert {"python", "leadline", "jax"} <= set(facts["versions"])
    assert facts["device"]["count"] >= 1
    assert facts["programs"] == jax.config.values["jax_compilation_cache_dir"]
    assert facts["versions"]["jax"] in process(*LEADLINE, "doctor").stdout


@pytest.mark.slow
def test_an_interrupt_keeps_the_last_step_and_says_how_to_go_on(tmp_path: Path) -> None:
    config, results = suite(tmp_path).with_name("mine.toml"), tmp_path / "results"
    words = [*LEADLINE, "run", str(config), "train.steps=1000000", "train.checkpoint_every=20", "--results", str(results)]
    with subprocess.Popen(words, cwd=ROOT, env=quick(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            until = time.monotonic() + TIMEOUT
            while not list(results.glob("mine/.group-*/manifest-*.json")):  # training has begun
                assert running.poll() is None
                assert time.monotonic() < until
                time.sleep(0.2)
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=TIMEOUT)
        finally:
            running.kill()
    assert (running.returncode, out) == (130, "")
    step = int(err.splitlines()[-1].removeprefix("leadline: mine: stopped at step ").split()[0])
    assert err.endswith(f"step {step} of 1000000, which is kept; to go on, run the same command again\n")
    assert len(list(results.glob(f"mine/.group-*/manifest-{step}.json"))) == 1
    assert not list(results.rglob("record.json"))
