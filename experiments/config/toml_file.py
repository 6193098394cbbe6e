"""TOML files as trees, and claims whose statement stands in a file beside their own."""

import tomllib
from pathlib import Path
from typing import Any

from leadline.experiments.config.base import Tree, nearest
from leadline.experiments.runtime.errors import UserError

# What a claim takes from the one that it restates.
TAKEN = ("statement", "erratum", "source", "where", "published", "shown_at")
# Tables and lists in each other; configurations have 6.
DEEPEST = 32


def parse_toml(text: str) -> Tree:
    """The tree of a text in TOML.

    ValueError in one line for anything else, for an integer of more than 64 bits, which TOML does not have either, and for
    tables and lists that are more than DEEPEST deep in each other.
    """
    try:
        tree = tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    values: list[Any] = [tree]
    for _ in range(DEEPEST):
        values = [inner for value in values for inner in (value.values() if isinstance(value, dict) else value)]
        if any(isinstance(value, int) and value.bit_length() > 63 for value in values):
            raise ValueError("an integer has more than 64 bits")
        values = [value for value in values if isinstance(value, dict | list)]
    if values:
        raise ValueError("nested too deeply")
    return tree


def value_of(text: str) -> object:
    """The value of `key=text`, in TOML or as a bare word."""
    try:
        tree = parse_toml(f"value = {text}")
    except ValueError:
        return text
    return tree["value"] if len(tree) == 1 else text  # a text of several lines may go on with other keys


def read_toml(path: Path) -> Tree:
    """The content of a TOML file. UserError where it cannot be read."""
    try:
        return parse_toml(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder: name one TOML file") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}") from None
    except ValueError as error:
        raise UserError(f"{path}: not TOML: {error}") from None


def with_statements(tree: Tree, path: Path) -> Tree:
    """The tree of a file, in which each claim that `restates` another has the statement and source of that one.

    The other claim stands in a TOML file of the same folder.

    Raises:
        UserError: for a claim that no such file has, or one that gives a statement or source beside `restates`.
    """
    if not any("restates" in claim for claim in _claims(tree)):
        return tree
    claims = [claim for file in sorted(path.parent.glob("*.toml")) for claim in _claims(read_toml(file))]
    stated = {str(claim.get("id")): claim for claim in claims if "statement" in claim}

    def whole(claim: Any) -> Any:
        if not isinstance(claim, dict) or "restates" not in claim:
            return claim
        name, where = str(claim["restates"]), f"{path}: claim {claim.get('id')}: restates = {claim['restates']!r}"
        if name not in stated:
            raise UserError(f"{where}: no claim of the studies in {path.parent} has this id{nearest(name, list(stated))}")
        if given := [key for key in TAKEN if key in claim]:
            raise UserError(f"{where} gives {', '.join(given)}: leave {'it' if len(given) == 1 else 'them'} out here")
        return {**claim, **{key: stated[name][key] for key in TAKEN if key in stated[name]}}

    return {**tree, "claims": [whole(claim) for claim in tree["claims"]]}


def without_claims(tree: Tree, ids: Any, path: Path) -> Tree:
    """The tree without its claims of some ids. UserError naming `path`, which gives the ids, for one that no claim has."""
    if not isinstance(ids, list):
        raise UserError(f'{path}: without_claims = {ids!r}: give a list of ids, as in ["guo-sink"]')
    given = [str(claim.get("id")) for claim in _claims(tree)]
    for name in ids:
        if name not in given:
            raise UserError(f"{path}: without_claims: no claim of the extended file is {name!r}{nearest(str(name), given)}")
    return {**tree, "claims": [claim for claim in tree["claims"] if not _has_id(claim, ids)]} if ids else tree


def _has_id(claim: Any, ids: list[Any]) -> bool:
    """Whether a claim, which may be no table yet, has one of these ids."""
    return isinstance(claim, dict) and claim.get("id") in ids


def _claims(tree: Tree) -> list[Tree]:
    claims = tree.get("claims")
    return [claim for claim in claims if isinstance(claim, dict)] if isinstance(claims, list) else []
