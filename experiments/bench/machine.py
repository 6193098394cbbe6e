"""The machine and the software that figures were measured with, found out by a process of its own: JAX takes an accelerator's
memory for the process that asks it for devices."""

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from experiments.cores import cores

# What contestants are made of, besides what a record names.
PEERS = ("torch", "transformers", "tokenizers", "tiktoken", "sentencepiece", "tokamax", "transformer_engine_jax")


def surroundings() -> dict[str, Any]:
    """Machine, versions, commit and whether the tree was dirty, and when this was asked."""
    command = [sys.executable, "-m", __name__]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Prints the surroundings as one line of JSON."""
    from experiments.identity import now, provenance

    found = provenance()
    device = found["device"]
    accelerator = None if device["platform"] == "cpu" else f"{device['count']} x {device['kind']}"
    machine = {"cpu": cpu_model(), "cores": cores(), "memory_gib": memory_gib(), "accelerator": accelerator}
    machine |= {"device_kind": device["kind"], "system": platform.platform()}
    versions = {**found["versions"], **peer_versions()}
    content = {"machine": machine, "versions": versions, "commit": found["commit"], "dirty": found["dirty"], "date": now()}
    print(json.dumps(content))  # noqa: T201  # the parent reads it


def cpu_model() -> str:
    """What the operating system calls the processor, with the numbers that tell its generation: hosts of virtual machines give
    one name to several, whose ceilings differ by a factor of two."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    known = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    name = known.get("model name", platform.processor() or platform.machine())
    return f"{name} (family {known['cpu family']}, model {known['model']})" if "cpu family" in known else name


def memory_gib() -> float | None:
    """Of the machine; None where the operating system does not say."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError):
        return None


def peer_versions() -> dict[str, str]:
    """Of those that are installed."""
    found = {}
    for package in PEERS:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
