"""Tables inside a Markdown file of somebody's own, rewritten from records."""

import re
from collections.abc import Mapping
from pathlib import Path

from leadline.experiments.runtime.errors import UserError

BLOCK = re.compile(r"(<!-- leadline table (?P<name>\w+) -->\n).*?(<!-- leadline end -->)", re.DOTALL)


def with_tables(text: str, tables: Mapping[str, str], where: str = "the text") -> str:
    """`text` with each block between `<!-- leadline table NAME -->` and `<!-- leadline end -->` replaced by that table.

    Raises UserError for a block whose table there is not, or a text without a block.
    """
    names = [match["name"] for match in BLOCK.finditer(text)]
    if not names:
        raise UserError(f"{where}: no block '<!-- leadline table NAME -->' … '<!-- leadline end -->' to fill")
    for name in names:
        if name not in tables:
            raise UserError(f"{where}: there is no table {name!r}; there are {', '.join(sorted(tables))}")
    return BLOCK.sub(lambda match: f"{match[1]}\n{tables[match['name']].strip()}\n\n{match[3]}", text)


def rewrite(path: Path, tables: Mapping[str, str]) -> None:
    """`with_tables` on a file, replaced whole or not at all."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(with_tables(text, tables, str(path)), encoding="utf-8")
    temporary.replace(path)
