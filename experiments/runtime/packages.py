"""Packages of extras, which are imported where they are needed."""

import importlib
from typing import Any

from leadline.experiments.runtime.errors import UserError


def needed_package(name: str, what: str, extra: str) -> Any:
    """A package or a module of it. UserError that says which extra holds it where it cannot be imported."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise UserError(f"{what} needs the package {package} ({error}); pip install -e '.[{extra}]' in a clone") from error
