"""What a record says of where it came from: digest, commit, versions, device."""

import json
import platform
import subprocess
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from typing_extensions import TypedDict

from leadline.experiments.config.base import Frozen
from leadline.experiments.records.json_file import sha256, strict_json
from leadline.experiments.records.record import Device
from leadline.experiments.runtime.errors import UserError

PACKAGES = ("leadline", "jax", "jaxlib", "flax", "optax", "numpy", "orbax-checkpoint")
# Fields that no number depends on: what an arm is called and what is published of it; where it starts, which the digest of that
# arm covers; how often a run is saved; and where a corpus and a tokenizer lie, whose content the digest of the data covers.
WITHOUT_EFFECT: Mapping[str, Collection[str]] = {
    "": ("name", "label", "published", "start"),
    "train": ("checkpoint_every",),
    "data": ("corpus", "hub_documents"),
    "data.tokenizer": ("source",),
}
# To be raised when the same configuration gives other numbers than before, as after a change of a default.
NUMBERS = 2


def non_default_settings(model: BaseModel) -> dict[str, Any]:
    """The settings of a configuration that differ from their defaults, those that have none, and every `kind`, as strict JSON.

    A setting that is added later, with a default, changes nothing here. The class makes an equal configuration of it again.
    """
    tree = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if field.is_required() or name == "kind" or value != field.get_default(call_default_factory=True):
            tree[name] = _plain(value)
    return tree


def _plain(value: object) -> Any:
    match value:
        case BaseModel():
            return non_default_settings(value)
        case Mapping():
            return {str(key): _plain(entry) for key, entry in value.items()}
        case list() | tuple():
            return [_plain(entry) for entry in value]
    return strict_json(value)


def arm_digest(config: Frozen, data_digest: str | None, start: str | None = None) -> str:
    """Twelve hexadecimal digits of all that can change the numbers of an arm.

    The name of the study is not among it: the folder of a record holds it.

    Args:
        config: of the arm. Its settings count where they differ from their defaults (`non_default_settings`).
        data_digest: of what the corpus says, wherever it lies; None for data that the configuration draws.
        start: the digest of the arm that it starts from: whatever changes that one's weights changes this one's.
    """
    settings = non_default_settings(config)
    for section, names in WITHOUT_EFFECT.items():
        table: Any = settings
        for key in filter(None, section.split(".")):
            table = table.get(key) if isinstance(table, dict) else None
        if isinstance(table, dict):
            for name in names:
                table.pop(name, None)
    content = {"numbers": NUMBERS, "config": settings, "data": data_digest, "start": start}
    return sha256(json.dumps(content, sort_keys=True).encode())[:12]


class Provenance(TypedDict):
    """The fields of a record that describe the code and the machine, as they were when the run began."""

    commit: str | None
    dirty: bool | None
    versions: dict[str, str]
    device: Device


def provenance() -> Provenance:
    """The provenance of records that this process makes.

    Raises:
        UserError: where a package can be imported but is not installed, so that its version is not known.
    """
    import jax  # here, because those who read records do without it

    commit, dirty = _commit()
    device = jax.devices()[0]
    try:
        versions = {package: version(package) for package in PACKAGES}
    except PackageNotFoundError as error:
        raise UserError(f"{error.name} is on the path and not installed: run pip install -e . in the clone") from error
    return Provenance(
        commit=commit,
        dirty=dirty,
        versions={"python": platform.python_version()} | versions,
        device=Device(platform=device.platform, kind=device.device_kind, count=jax.device_count()),
    )


def now() -> str:
    """ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _commit() -> tuple[str | None, bool | None]:
    """The commit of the tree that this file is in, and whether tracked files differ from it; None outside a repository."""
    here = Path(__file__).resolve().parent  # behind the link in src/leadline

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
