"""JSON files that protect themselves: strict, written whole or not at all, with a sum of their own content."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from pydantic import ValidationError

# The key of the SHA-256 of all other keys of a sealed object.
SUM = "sum"
# Significant digits of numbers that a record has many of, about the precision of float32.
DIGITS = 7


def strict_json(value: object) -> object:
    """Turns a nested value into what strict JSON can hold, without loss: inf, -inf, nan become strings that name them.

    A softmax logit of -inf is a legal setting, and JSON has no such number. NumPy's scalars become Python's. TypeError for a
    value that is no number, text, boolean, None, list or mapping.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return float(value) if math.isfinite(value) else str(float(value))
        case np.generic():
            return strict_json(value.item())
        case Mapping():
            return {str(key): strict_json(entry) for key, entry in value.items()}
        case list() | tuple():
            return [strict_json(entry) for entry in value]
    raise TypeError(f"a record cannot hold {type(value).__name__}: give numbers, text, lists or mappings")


def rounded(value: float) -> float | None:
    """The number with DIGITS significant digits; None if it is not finite."""
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def reason(error: Exception) -> str:
    """What is wrong with a file, in one line: what the system says, or the first mistake in its content."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the whole'}: {first['msg']}"
    return getattr(error, "strerror", None) or str(error).split("\n")[0]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def line(value: object) -> str:
    """The value on one line, without blanks. ValueError for a number that is not finite."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def parse(data: bytes) -> Any:
    """The value of strict JSON in UTF-8. ValueError for anything else, and for nesting that is too deep."""
    try:
        return json.loads(data.decode(), parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def json_lines(values: Iterable[object]) -> bytes:
    """A file of JSON Lines."""
    return "".join(f"{line(value)}\n" for value in values).encode()


def parse_lines(data: bytes) -> list[Any]:
    """The values of such a file. ValueError naming the line that is not JSON."""
    values = []
    for number, content in enumerate(data.splitlines(), start=1):
        try:
            values.append(parse(content))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    return values


def seal(content: Mapping[str, Any]) -> bytes:
    """A file of one JSON object with the sum of its content."""
    whole = {SUM: _sum(content), **{key: value for key, value in content.items() if key != SUM}}
    return (json.dumps(whole, allow_nan=False, ensure_ascii=False, indent=1) + "\n").encode()


def unseal(data: bytes) -> dict[str, Any]:
    """The object of a sealed file, with its sum.

    Every byte counts: a file that says the same in another form is refused too. ValueError if the file is not what `seal`
    wrote.
    """
    content = parse(data)
    if not isinstance(content, dict) or SUM not in content:
        raise ValueError("it has no sum of its content")
    if _sum(content) != content[SUM]:
        raise ValueError("its content does not agree with its sum")
    if seal(content) != data:
        raise ValueError("its form is not the one that was written")
    return content


def _sum(content: Mapping[str, Any]) -> str:
    return sha256(line({key: value for key, value in content.items() if key != SUM}).encode())


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all: a temporary file beside it, flushed to the disk, then renamed over it."""
    _write({path: path.with_name(f".{path.name}.part")}, {path: data}, lambda: None)


def write_claimed(files: Mapping[Path, bytes], check: Callable[[], None]) -> None:
    """As `write_whole`, of files in folders that this process has claimed, in their order.

    `check` is called when all of them are on the disk and none is renamed. What it raises leaves the folders as they were: a
    process that stood still while it wrote finds here that another one has taken over. Names of temporary files are used once,
    so that neither writes into a file of the other. What a killed process left of them is removed.
    """
    _write({path: path.with_name(f".{path.name}.{token_hex(4)}.part") for path in files}, files, check)
    for folder in {path.parent for path in files}:
        for left in folder.glob(".*.part"):
            left.unlink(missing_ok=True)


def _write(temporary: Mapping[Path, Path], files: Mapping[Path, bytes], check: Callable[[], None]) -> None:
    try:
        for path, data in files.items():
            with temporary[path].open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        check()
        for path in files:
            temporary[path].replace(path)
    finally:
        for path in temporary.values():
            path.unlink(missing_ok=True)
