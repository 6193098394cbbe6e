"""The command that prints the JSON Schema of configurations, and writes it with its page."""

from pathlib import Path

from leadline.experiments.config.schema import schema
from leadline.experiments.config.schema_page import documents
from tests.experiments.called import Called


def test_the_schema_is_printed_and_written_with_its_page(called: Called, tmp_path: Path) -> None:
    assert called.json("schema") == schema()
    written = called.json("schema", "--into", tmp_path / "docs")["files"]
    assert {Path(path).name: Path(path).read_text(encoding="utf-8") for path in written} == documents()
