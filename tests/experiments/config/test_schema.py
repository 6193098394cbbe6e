"""The JSON Schema of configurations: what it takes, what it refuses, and the files that are made of it."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from leadline.experiments.config.base import Tree
from leadline.experiments.config.position import Axial, Rope
from leadline.experiments.config.schema import key_comments, schema
from leadline.experiments.config.schema_page import documents
from tests.experiments.committed import CONFIGS, ROOT

SCHEMA = schema()
VALIDATOR = Draft202012Validator(SCHEMA)
STUDY = """
study = "mine"
model = { layers = 1, position = { kind = "rope", base = 100.0, scaling = { kind = "yarn", factor = 4.0 } } }
data = { kind = "text", length = 64, corpus = ["book.txt"] }
train = { steps = 1, batch = 1, learning_rate = 1e-3 }
arms.gated = { label = "gated", start = "plain", model.gate = { kind = "output", per = "head" }, measure.sink.token = 2 }
arms.base = { model.position.base = 500.0, model.sink = { kind = "fixed", logit = -inf } }
sweep = { "train.learning_rate" = [1e-3, 1e-2] }
tables = [{ title = "t", columns = ["loss", { quantity = "loss", at = { length = { multiple = 2 } } }] }]
claims = [{ id = "a", statement = "b", left = { quantity = "loss", arm = "x", over = { quantity = "a", arm = "y" } } }]
"""


def errors(text: str) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(tomllib.loads(text))]


def test_it_is_a_schema_and_has_no_numbers_that_json_lacks() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    json.dumps(SCHEMA, allow_nan=False)


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.toml")), ids=lambda path: str(path.relative_to(CONFIGS)))
def test_it_takes_every_file_of_configs(path: Path) -> None:
    assert errors(path.read_text(encoding="utf-8")) == []


def test_it_takes_what_arms_and_files_that_extend_others_may_leave_out() -> None:
    assert errors(STUDY) == []
    assert errors('extends = "other.toml"\nmodel.position.base = 500.0') == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("study =", "studdy ="),
        ("layers", "layrs"),
        ("factor", "faktor"),
        ("corpus", "korpus"),
        ("per =", "pre ="),
        ("sink.token", "sink.tokn"),
        ("label =", "lable ="),
        ("model.position.base", "model.position.bas"),
        ("title =", "titel ="),
        ("multiple", "multipl"),
        ("over =", "ovr ="),
        ('"rope"', '"rop"'),
        ("layers = 1", "layers = 0"),
        ("steps = 1", 'steps = "1"'),
        ('"mine"', '"mine"\nstudies = ["a.toml"]'),
    ],
)
def test_it_refuses_misspelt_keys_and_values_out_of_range(old: str, new: str) -> None:
    assert old in STUDY
    assert errors(STUDY.replace(old, new)) != []


def tables(tree: Tree) -> dict[str, Tree]:
    return {"the file": tree, **{name: table for name, table in tree["$defs"].items() if "properties" in table}}


@pytest.mark.parametrize("name", tables(SCHEMA))
def test_every_table_and_key_says_what_it_means(name: str) -> None:
    table: dict[str, Any] = tables(SCHEMA)[name]
    assert table.get("description")
    tags = {"kind"} if {"const", "enum"} & table["properties"].get("kind", {}).keys() else set()
    assert [key for key, value in table["properties"].items() if not value.get("description") and key not in tags] == []


def test_a_key_is_described_by_the_comment_after_or_above_its_field() -> None:
    assert key_comments(Axial)["grid"] == "sizes of all axes but the first"
    assert key_comments(Rope)["base"].startswith("b of the frequencies")  # inherited
    assert key_comments(Rope)["sections"].startswith("M-RoPE: ")


def test_the_committed_files_are_current() -> None:
    for name, text in documents().items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == text, f"docs/{name} is not current: run make schema"
