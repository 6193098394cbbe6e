"""The README shows what the records say, and names files that are there."""

import re
import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from experiments.errors import UserError
from experiments.publish.readme import rewrite, with_tables
from experiments.studies.publish import publish_all

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_tables_are_those_of_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made and not rendered, which takes longer than all the rest."""
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **_: file.write(b"<svg></svg>"))  # noqa: ARG005
    kept = shutil.ignore_patterns("tables", "figures", "index.html")
    shutil.copytree(ROOT / "docs" / "results", tmp_path, ignore=kept, dirs_exist_ok=True)
    published = publish_all(tmp_path)
    tables = {path.stem: path.read_text(encoding="utf-8") for path in published.tables if path.suffix == ".md"}
    assert with_tables(README, tables) == README, "the records or the tables changed: run make publish"


def test_files_that_it_names_exist() -> None:
    linked = re.findall(r"\]\(([^)#]+)\)", README)
    configs = re.findall(r"configs/[\w/]+\.toml", README)
    assert linked
    assert configs
    assert [name for name in (*linked, *configs) if not (ROOT / name).exists()] == []


def test_a_block_is_filled_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "PAPER.md"
    path.write_text("a\n<!-- leadline table sinks -->\nold\n<!-- leadline end -->\nb\n", encoding="utf-8")
    rewrite(path, {"sinks": "| new |"})
    assert path.read_text(encoding="utf-8") == "a\n<!-- leadline table sinks -->\n\n| new |\n\n<!-- leadline end -->\nb\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [("no block", "no block"), ("<!-- leadline table loss -->\n<!-- leadline end -->", "no table 'loss'; there are sinks")],
)
def test_what_cannot_be_filled_is_named(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        with_tables(text, {"sinks": ""})
