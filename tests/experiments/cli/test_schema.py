"""The command that prints the JSON Schema of configurations, and writes it with its page."""

from pathlib import Path

from leadline.experiments.config.schema import schema
from leadline.experiments.config.schema_page import documents
from leadline.experiments.publish.quantities_page import quantities_page
from tests.experiments.called import Called

ROOT = Path(__file__).parents[3]


def test_the_schema_is_printed_and_written_with_its_page(called: Called, tmp_path: Path) -> None:
    assert called.json("schema") == schema()
    written = called.json("schema", "--into", tmp_path / "docs")["files"]
    pages = documents() | {"quantities.md": quantities_page()}
    assert {Path(path).name: Path(path).read_text(encoding="utf-8") for path in written} == pages
    file = tmp_path / "docs" / "config.md"
    assert (
        called.mistake("schema", "--into", file)
        == f"leadline: {file}: cannot be written (File exists); choose another folder\n"
    )
    assert (ROOT / "docs" / "quantities.md").read_text(encoding="utf-8") == pages["quantities.md"], "run make schema"
