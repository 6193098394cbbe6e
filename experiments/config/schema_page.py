"""The page of all keys of a configuration, in Markdown, from its JSON Schema."""

import json
import re
from collections.abc import Iterator

from leadline.experiments.config.base import Tree
from leadline.experiments.config.schema import schema

REF = "#/$defs/"
INTRODUCTION = """# Keys of a configuration

`leadline run` takes a TOML file: a study, or a suite of studies. This page is made from the JSON Schema of these files,
`docs/config.schema.json`, by `make schema`. An editor that knows the schema completes and checks the keys: the first line of
every file of `configs/` names it (`#:schema`, as in Even Better TOML and Taplo).

- A dotted key is a key of a table: `model.sink = { kind = "learned" }` is `sink` of `[model]`.
- Every key of `[model]`, `[data]`, `[train]` and `[measure]` may also stand in `[arms.NAME]`, where it changes that arm alone.
- A table with another `kind` replaces the one that it changes; any other table is merged with it, key by key.
- `leadline run CONFIG key=value` changes a key of the file: `train.steps=100`, `model.position.base=500.0`.
"""


def documents() -> dict[str, str]:
    """The schema and its page as the files of docs, by name."""
    tree = schema()
    return {"config.schema.json": json.dumps(tree, indent=2, ensure_ascii=False) + "\n", "config.md": page(tree)}


def page(tree: Tree) -> str:
    """Every table with its keys: type and range, default, meaning."""
    return INTRODUCTION + "".join(f"\n{part}\n" for part in _Page(tree).sections("", [tree], "The file"))


class _Page:
    """Remembers which tables have a section already: a table that stands at several places has one, at the first."""

    def __init__(self, tree: Tree) -> None:
        self._definitions = tree["$defs"]
        self._places: dict[str, str] = {}  # definition -> path

    def sections(self, path: str, tables: list[Tree], title: str) -> Iterator[str]:
        """The section of the table at a path, which may be of several kinds, and after it those of the tables in it."""
        yield f"## {title}"
        inner: list[tuple[str, list[Tree], str]] = []
        for table in tables:
            kinds = _kinds(table) if len(tables) > 1 else []
            if kinds:
                yield f"**kind = {' or '.join(f'`{json.dumps(kind)}`' for kind in kinds)}**"
            if "description" in table:
                yield _prose(table["description"])
            keys = {key: value for key, value in table["properties"].items() if not (kinds and key == "kind")}
            for key, value in keys.items():
                inner += self._inner(f"{path}.{key}".removeprefix("."), value)
            if keys:
                cells = ((f"`{key}`", self._type(value), _default(value), _meaning(value)) for key, value in keys.items())
                rows = ["| key | type | default | meaning |", "|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in cells)]
                yield "\n".join(rows)
        for part in inner:
            yield from self.sections(*part)

    def _inner(self, path: str, value: Tree) -> list[tuple[str, list[Tree], str]]:
        """The tables that stand at a path and have no section yet."""
        if path == "arms":
            return []
        names = [name for name in self._references(value) if name not in self._places]
        self._places |= dict.fromkeys(names, path)
        tables = [table for table in map(self._definitions.__getitem__, names) if "properties" in table]
        listed = value.get("type") == "array"
        top = f"[[{path}]]" if listed else f"[{path}]"
        return [(path, tables, top if "." not in path else path)] if tables else []

    def _references(self, value: Tree) -> list[str]:
        """The definitions that a value is one of, or a list of."""
        names = [value["$ref"].removeprefix(REF)] if "$ref" in value else []
        inner = [value[key] for key in ("items", "additionalProperties") if isinstance(value.get(key), dict)]
        for part in (*value.get("anyOf", ()), *value.get("oneOf", ()), *inner):
            names += self._references(part)
        return names

    def _type(self, value: Tree) -> str:
        parts = list(dict.fromkeys(self._types(value)))
        return " or ".join(parts)

    def _types(self, value: Tree) -> Iterator[str]:
        for part in (*value.get("anyOf", ()), *value.get("oneOf", ())):
            yield from self._types(part)
        if "$ref" in value:
            name = value["$ref"].removeprefix(REF)
            table = self._definitions[name]
            if "properties" in table:
                place = self._places.get(name)
                yield f"[table](#{_slug(place)})" if place else "table"
            else:
                yield from self._types(table)
        elif "const" in value or "enum" in value:
            yield ", ".join(f"`{json.dumps(choice)}`" for choice in value.get("enum", [value.get("const")]))
        elif "prefixItems" in value:
            yield f"list of {len(value['prefixItems'])} {self._type(value['prefixItems'][0])}s"
        elif value.get("type") == "array":
            yield "list of " + re.sub(r"^(integer|number|string)", r"\1s", self._type(value["items"]))
        elif value.get("type") == "object":
            yield "table"
        elif "type" in value:
            yield _range(value)


def _range(value: Tree) -> str:
    """`integer ≥ 1`, `number > 0, < 1`."""
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<", "multipleOf": "multiple of"}
    name = "true or false" if value["type"] == "boolean" else value["type"]
    return ", ".join([name, *(f"{sign} {value[key]}" for key, sign in signs.items() if key in value)]).replace(", ", " ", 1)


def _default(value: Tree) -> str:
    if "default" not in value:
        return ""
    default = value["default"]
    return f'`{{ kind = "{default["kind"]}" }}`' if isinstance(default, dict) else f"`{json.dumps(default)}`"


def _meaning(value: Tree) -> str:
    return value.get("description", "").replace("|", r"\|")


def _kinds(table: Tree) -> list[str]:
    kind = table["properties"].get("kind", {})
    return kind.get("enum", [kind["const"]] if "const" in kind else [])


def _prose(docstring: str) -> str:
    """A docstring as Markdown, in which indented lines are code."""
    return re.sub(r"(?m)^(\S.*)\n(?= {4})", r"\1\n\n", docstring)


def _slug(path: str) -> str:
    """The anchor of a heading, as GitHub and MkDocs make it."""
    return re.sub(r"[^\w-]", "", path.lower())
