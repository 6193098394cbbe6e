"""From what a user names to a checked checkpoint."""

from pathlib import Path

from leadline.experiments.published.checkpoint import Checkpoint
from leadline.experiments.published.gguf_file import open_gguf
from leadline.experiments.published.safetensors_files import open_folder
from leadline.experiments.published.source import HUB, located


def open_checkpoint(spec: str) -> Checkpoint:
    """The model that `spec` names: "PATH", "hub:NAME[@REVISION]" or "package:NAME".

    Headers are read and checked; weights are mapped and read when they are asked for. Nothing is unpickled, and no code that
    comes with a model runs.

    Raises:
        UserError: for what `located`, `open_folder` and `open_gguf` refuse.
    """
    path = located(spec)
    return open_folder(path, _name(spec, path)) if path.is_dir() else open_gguf(path, _name(spec, path))


def _name(spec: str, path: Path) -> str:
    """SmolLM2-135M for "hub:HuggingFaceTB/SmolLM2-135M@main", the folder SmolLM2-135M and the file SmolLM2-135M.gguf."""
    if spec.startswith(HUB):
        return spec.removeprefix(HUB).partition("@")[0].rpartition("/")[2]
    return path.resolve().stem if path.is_file() else path.resolve().name
