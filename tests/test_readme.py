"""The README shows what the records say."""

from pathlib import Path

import pytest

from leadline.experiments.publish.contents import Contents, contents_of
from leadline.experiments.publish.export import rewrite, with_tables
from leadline.experiments.publish.table import markdown
from leadline.experiments.records.packed import PACKED
from leadline.experiments.runtime.errors import UserError
from tests.experiments.committed import PLANNED

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def published() -> Contents:
    results = ROOT / "docs" / "results"
    if not list(results.glob(f"*/{PACKED}")):
        pytest.skip("docs/results holds no packed records yet: run make publish")
    return contents_of(results, drawn=(), planned=PLANNED)


def test_tables_are_those_of_the_records(published: Contents) -> None:
    tables = {table.name: markdown(table) for table in published.tables}
    assert with_tables(README, tables) == README, "the records or the tables changed: run make publish"


def test_whatever_is_computed_exactly_is_judged(published: Contents) -> None:
    """A claim whose arms differ in more than its selectors say is not measured."""
    exact = [verdict for section in published.sections if section.described.exact for verdict in section.verdicts]
    assert exact
    assert [verdict.id for verdict in exact if verdict.outcome == "not measured"] == []


def test_a_block_is_filled_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "PAPER.md"
    path.write_text("a\n<!-- leadline table sinks -->\nold\n<!-- leadline end -->\nb\n", encoding="utf-8")
    rewrite(path, {"sinks": "| new |"})
    assert path.read_text(encoding="utf-8") == "a\n<!-- leadline table sinks -->\n\n| new |\n\n<!-- leadline end -->\nb\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [("no block", "no block"), ("<!-- leadline table loss -->\n<!-- leadline end -->", "no table 'loss'; there are sinks")],
)
def test_what_cannot_be_filled_is_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "PAPER.md"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        rewrite(path, {"sinks": ""})
