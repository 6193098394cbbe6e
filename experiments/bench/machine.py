"""The machine and the software of a run.

They are asked in a process of their own, because JAX reserves an accelerator's memory for the process that lists its devices.
"""

import json
import platform
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from leadline.experiments.runtime.cpu import cores, memory_bytes

# Packages that contestants use, besides those that a record names.
PEERS = ("torch", "transformers", "tokenizers", "tiktoken", "sentencepiece", "tokamax", "transformer_engine_jax")


def surroundings() -> dict[str, Any]:
    """Machine, versions, commit, whether the tree was dirty, and the date."""
    command = [sys.executable, "-m", __name__]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Prints the surroundings as one line of JSON."""
    from leadline.experiments.records.provenance import now, provenance

    origin = provenance()
    device = origin["device"]
    accelerator = None if device["platform"] == "cpu" else f"{device['count']} x {device['kind']}"
    gib = round(size / 2**30, 1) if (size := memory_bytes()) else None
    machine = {"cpu": cpu_model(), "cores": cores(), "memory_gib": gib, "accelerator": accelerator}
    machine |= {"device_kind": device["kind"], "system": platform.platform()}
    for package in PEERS:
        with suppress(PackageNotFoundError):
            origin["versions"][package] = version(package)
    content = {"machine": machine, **{name: origin[name] for name in ("versions", "commit", "dirty")}, "date": now()}
    print(json.dumps(content))  # noqa: T201  # the parent reads it


def cpu_model() -> str:
    """The name of the processor, with its family and model.

    Hosts of virtual machines give one name to several generations, whose ceilings differ by a factor of two.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    known = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    name = known.get("model name", platform.processor() or platform.machine())
    return f"{name} (family {known['cpu family']}, model {known['model']})" if "cpu family" in known else name


if __name__ == "__main__":
    main()
