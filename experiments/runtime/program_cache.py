"""Compiled programs are kept from one command to the next, in the user's cache folder."""

import errno
import hashlib
import os
import platform
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import jax

OWN_FOLDER = "JAX_COMPILATION_CACHE_DIR"
# Bytes of a machine's programs. JAX removes those that were not used for the longest time.
LIMIT = 2 << 30
# What compiles in less is not worth two files: JAX goes through all of them whenever it adds one.
SECONDS = 0.1
# JAX writes the time of an entry after the entry. One that has had none for so long was never finished.
UNFINISHED_SECONDS = 60.0


def start_jax(devices: int) -> str | None:
    """Before JAX starts: devices on a CPU, so that the models of an ensemble train side by side, and the folder of programs.

    Returns:
        A line that says why programs cannot be kept; None if they can.
    """
    jax.config.update("jax_num_cpu_devices", devices)
    return keep_programs()


def keep_programs(environment: Mapping[str, str] = os.environ, seconds: float = SECONDS) -> str | None:
    """Sets the folder that JAX keeps programs in, unless the user has set one. To be called before JAX compiles.

    Args:
        environment: may name folders.
        seconds: programs that compile in less are not kept.

    Returns:
        A line that says why the folder cannot be written; None if it can.
    """
    if environment.get(OWN_FOLDER) or jax.config.values["jax_compilation_cache_dir"]:
        return None
    try:
        folder = program_folder(environment)
    except RuntimeError as error:  # nobody says where the user's home is
        return f"programs are compiled each time ({error}); {OWN_FOLDER} names a folder to keep them in"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # An entry of a command that was killed: JAX would complain of it again and again, and never replace it.
        for entry in folder.glob("*-cache"):
            dated = entry.with_name(entry.name.removesuffix("-cache") + "-atime")
            with suppress(FileNotFoundError):  # another command removes it at the same time
                if not dated.exists() and time.time() - entry.stat().st_mtime > UNFINISHED_SECONDS:
                    entry.unlink()
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        reason = error.strerror or error
        return f"{folder} cannot be written ({reason}), so programs are compiled each time; {OWN_FOLDER} names another folder"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_compilation_cache_max_size", LIMIT)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", seconds)
    return None


def kept_where() -> str | None:
    """The folder that JAX keeps programs in; None where it keeps none."""
    folder = jax.config.values["jax_compilation_cache_dir"]
    return folder if folder and jax.config.values["jax_enable_compilation_cache"] else None


def program_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """That of this kind of processor: machines with other instructions may share the user's home."""
    match sys.platform:  # where each operating system wants what can be made again
        case "darwin":
            cache = Path.home() / "Library" / "Caches"
        case "win32":
            cache = Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        case _:
            named = Path(environment.get("XDG_CACHE_HOME", ""))
            cache = named if named.is_absolute() else Path.home() / ".cache"
    try:  # the instructions of the processor, as far as the operating system tells them
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        told = {line for line in lines if line.startswith(("model name", "flags", "Features"))}  # of each core alike
        processor = " ".join([platform.machine(), *sorted(told)])
    except OSError:
        processor = f"{platform.machine()} {platform.processor()}"
    return cache / "leadline" / "xla" / hashlib.sha256(processor.encode()).hexdigest()[:12]
