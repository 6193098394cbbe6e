"""The JSON Schema of configurations, which editors complete and check with and docs/config.md is made of.

A table is described by the docstring of its class, a key by the comment after its field, or by the lines of comment above it.
"""

import ast
import inspect
import math
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from leadline.experiments.config import claim, report
from leadline.experiments.config.base import Frozen, Tree
from leadline.experiments.config.load import SECTIONS
from leadline.experiments.config.study import Arm, Study

# Tables of these modules are written whole. All others may be given in parts, by a file and those that it extends, and by arms.
WHOLE = (claim.__name__, report.__name__)
SUITE = "the studies of a suite, as files relative to this one; a suite has no other key"
EXTENDS = "the file that this one changes, relative to it: tables are merged key by key"
WITHOUT = "ids of claims of the extended file that this one leaves out, as those of arms that it does not train"


def schema() -> Tree:
    """The JSON Schema, draft 2020-12, of a study or a suite in TOML.

    It names every key with its type, range, default and meaning, and refuses unknown keys. What must be there, and what goes
    together, is checked when a file is loaded.
    """
    tree = Study.model_json_schema(schema_generator=_Generator)
    keys, comments = tree["properties"], key_comments(Arm)
    published = {"type": "array", "items": {"$ref": "#/$defs/Published"}}
    arm = {
        "label": {"type": "string", "description": comments["label"]},
        "published": {**published, "description": comments["published"]},
        "start": {"type": "string", "description": comments["start"]},
        **{name: keys[name] for name in SECTIONS},
    }
    keys["arms"]["additionalProperties"] = {"type": "object", "properties": arm, "additionalProperties": False}
    files = {
        "extends": {"type": "string", "description": EXTENDS},
        "without_claims": {"type": "array", "items": {"type": "string"}, "description": WITHOUT},
        "studies": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": SUITE},
    }
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "title": "A study of leadline, or a suite of studies",
        **tree,
        "properties": {**keys, **files},
        "if": {"required": ["studies"]},
        "then": {"maxProperties": 1},
    }


def key_comments(kind: type[BaseModel]) -> dict[str, str]:
    """Returns the description of each key: the comments on the fields of a class and of its base classes."""
    comments: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, Frozen):
            comments |= _comments_of(inspect.getsource(base))
    return comments


def _comments_of(source: str) -> dict[str, str]:
    (kind,), lines, comments = ast.parse(source).body, source.splitlines(), {}
    for field in kind.body if isinstance(kind, ast.ClassDef) else ():
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            last, end = field.end_lineno or field.lineno, field.end_col_offset or 0
            behind = lines[last - 1].encode()[end:].decode().strip()  # the parser counts bytes
            first = field.lineno - 1
            while lines[first - 1].strip().startswith("#"):
                first -= 1
            words = [line.strip().removeprefix("# ") for line in (behind, *lines[first : field.lineno - 1])]
            comments[field.target.id] = " ".join(word for word in words if word)
    return comments


class _Generator(GenerateJsonSchema):
    """That of pydantic with the comments as descriptions, and without what TOML cannot say (null, infinite bounds)."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """A key whose value is None is absent."""
        return self.generate_inner(schema["schema"])

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """A table without `kind` changes the one that it is merged into, of whatever kind. A word is a `kind` alone."""
        tree = super().tagged_union_schema(schema)
        words = [{"enum": list(schema["choices"])}] if schema["discriminator"] == "kind" else []
        return {"anyOf": [*tree["oneOf"], *words]} if "oneOf" in tree else tree

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        kind, tree = schema["cls"], super().model_schema(schema)
        comments, required = key_comments(kind), tree.get("required", [])
        for key, value in tree.get("properties", {}).items():
            default = value.get("default")
            if default is None or (isinstance(default, dict) and "kind" not in default):
                value.pop("default", None)
            for bound in [name for name, limit in value.items() if isinstance(limit, float) and not math.isfinite(limit)]:
                del value[bound]
            if comments.get(key):
                value["description"] = comments[key] + " (required)" * (key in required)
        del tree["title"]
        if kind.__module__ not in WHOLE:
            tree.pop("required", None)
        return tree
