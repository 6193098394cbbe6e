"""What a record says of where it came from: hash, commit, versions, device."""

import hashlib
import json
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import jax
from typing_extensions import TypedDict

from experiments.config.base import Frozen
from experiments.record import Device, strict_json

PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", "orbax-checkpoint")
# Settings that change how a run is kept, and no number of it; what a corpus says is in its digest, wherever it lies.
WITHOUT_EFFECT = {"train": {"checkpoint_every"}, "data": {"corpus", "hub_documents"}}
# Settings that came later: where one is absent, a hash is what it was before there was such a setting.
ADDED = frozenset({("data", "tokenizer"), ("model", "kept")})
# Raised when the same configuration would give other numbers than before.
NUMBERS = 1


def arm_hash(study: str, config: Frozen, data_digest: str | None, start: str | None = None) -> str:
    """Twelve hexadecimal digits of all that can change the numbers of an arm: configuration and data, not its name.

    `start` is the hash of the arm that it starts from: whatever changes that one's weights changes this one's.
    """
    settings = config.model_dump(exclude={"name": True, "start": True, **WITHOUT_EFFECT})
    for part, name in ADDED:
        if settings.get(part, {}).get(name, 0) is None:
            del settings[part][name]
    content = {"numbers": NUMBERS, "study": study, "config": strict_json(settings), "data": data_digest}
    content |= {} if start is None else {"start": start}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


class Origin(TypedDict):
    """The fields of a record that describe the code and the machine, as they were when the run began."""

    commit: str | None
    dirty: bool | None
    versions: dict[str, str]
    device: Device


def provenance() -> Origin:
    """What runs now, and where."""
    commit, dirty = _commit()
    device = jax.devices()[0]
    return Origin(
        commit=commit,
        dirty=dirty,
        versions={"python": platform.python_version(), "leadline": version("leadline"), **_versions()},
        device=Device(platform=device.platform, kind=device.device_kind, count=jax.device_count()),
    )


def now() -> str:
    """ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _versions() -> dict[str, str]:
    return {package: version(package) for package in PACKAGES}


def _commit() -> tuple[str | None, bool | None]:
    """The commit of the tree that this file is in, and whether tracked files differ from it; None outside a repository."""
    here = Path(__file__).parent

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", "-C", str(here), *words], capture_output=True, text=True, check=False)

    try:
        head = git("rev-parse", "HEAD")
        # A checkout of something else that happens to hold an installed leadline says nothing of leadline.
        known = git("ls-files", "--error-unmatch", Path(__file__).name)
    except FileNotFoundError:  # no git on this machine
        return None, None
    if head.returncode or known.returncode:
        return None, None
    return head.stdout.strip(), bool(git("status", "--porcelain", "--untracked-files=no").stdout.strip())
