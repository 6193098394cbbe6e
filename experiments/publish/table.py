"""A table as a value and its printed forms: Markdown, CSV and LaTeX (booktabs). The page prints the same as HTML."""

import csv
import io
import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property

from leadline.experiments.publish.names import MISSING
from leadline.experiments.records.over_seeds import Statistic

Cell = str | Statistic


@dataclass(frozen=True)
class Table:
    """Rows of cells under named columns. `name` is the file's and LaTeX label's; `notes` are printed below the rows.

    ValueError if a row has not one cell a column.
    """

    title: str
    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.name}: {len(row)} cells in a row of {len(self.columns)} columns: {row}")

    @cached_property
    def numeric(self) -> list[bool]:
        """Whether each column holds statistics, so that it is set flush right and split in the CSV."""
        return [any(isinstance(row[column], Statistic) for row in self.rows) for column in range(len(self.columns))]


def markdown_text(text: str) -> str:
    """Text in one line, with everything escaped that Markdown would read as a mark."""
    return re.sub(r"([\\|*`<\[\]_])", r"\\\1", " ".join(text.split()))


def markdown(table: Table) -> str:
    """A table of GitHub's Markdown under a bold title; the notes follow as a list."""
    rules = ["---:" if numeric else "---" for numeric in table.numeric]
    lines = [[markdown_text(title) for title in table.columns], rules]
    lines += [[markdown_text(str(cell)) for cell in row] for row in table.rows]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    notes = "".join(f"\n- {markdown_text(note)}" for note in table.notes)
    return f"**{markdown_text(table.title)}**\n\n{body}\n" + (f"{notes}\n" if notes else "")


def _csv_cells(cell: Cell, numeric: bool) -> list[str]:
    """One value, or mean, std and n in full precision; a text in a numeric column stands where the mean would."""
    if isinstance(cell, Statistic):
        return [repr(cell.mean), "" if cell.std is None else repr(cell.std), str(cell.n)]
    return ["" if cell == MISSING else cell, "", ""] if numeric else [cell]


def comma_separated(table: Table) -> str:
    """RFC 4180 without the notes: mean, std and n are columns of their own, unrounded; what is missing is empty."""
    header: list[str] = []
    for title, split in zip(table.columns, table.numeric, strict=True):
        header += [f"{title} mean", f"{title} std", f"{title} n"] if split else [title]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    for row in table.rows:
        writer.writerow([part for cell, split in zip(row, table.numeric, strict=True) for part in _csv_cells(cell, split)])
    return text.getvalue()


_SYMBOLS = {
    "±": r"\pm",
    "×": r"\times",
    "≥": r"\geq",
    "≤": r"\leq",
    "→": r"\to",
    "∞": r"\infty",
    "…": r"\ldots",
    "·": r"\cdot",
    "α": r"\alpha",
    "β": r"\beta",
    "δ": r"\delta",
    "ε": r"\varepsilon",
    "θ": r"\theta",
    "λ": r"\lambda",
    "μ": r"\mu",
    "π": r"\pi",
    "σ": r"\sigma",
    "φ": r"\phi",
    "ω": r"\omega",
    "Δ": r"\Delta",
    "Σ": r"\Sigma",
    "Ω": r"\Omega",
}
# The commands of the marks that Unicode combines with a letter.
_ACCENTS = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0308": '"',
    "\u030c": "v",
    "\u0323": "d",
    "\u0327": "c",
}
_LATEX = {
    **{special: f"\\{special}" for special in "{}_%&#$"},
    **{sign: f"${sign}$" for sign in "<>|"},
    **{sign: f"${command}$" for sign, command in _SYMBOLS.items()},
    "−": "$-$",
    "–": "--",
    "‖": r"$\|$",
    "²": "$^2$",
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def plain(table: Table) -> str:
    """A table as lines of text for a terminal, its columns aligned, without its notes."""
    rows = [table.columns, *(tuple(str(cell) for cell in row) for row in table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.columns))]
    sides = [">" if numeric else "<" for numeric in table.numeric]
    cells = [[f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)] for row in rows]
    return "\n".join((table.title, *("  ".join(row).rstrip() for row in cells))) + "\n"


def latex_text(text: str) -> str:
    """Text with everything escaped that TeX would read as a command."""
    return "".join(_LATEX.get(letter) or _accented(letter) for letter in " ".join(text.split()))


def _accented(letter: str) -> str:
    """A letter with accents as commands, which all fonts of TeX have."""
    plain_letter, *marks = unicodedata.normalize("NFD", letter)
    if not all(mark in _ACCENTS for mark in marks):
        return letter
    for mark in marks:
        plain_letter = f"\\{_ACCENTS[mark]}{{{plain_letter}}}"
    return plain_letter


# Texts longer than this wrap in LaTeX; all columns of them share this part of the line.
_LONG, _WRAPPED = 28, 0.6
# Tables of more rows do not fit on a page.
_MOST_ROWS = 30


def latex(table: Table) -> str:
    r"""A table with booktabs rules: a float, or a `longtable` where it has more than 30 rows.

    The document needs `\usepackage{booktabs}`, and `\usepackage{longtable}` for long tables.
    """
    # Column letters of `tabular`: r for statistics, l for short texts, p for those that must wrap.
    long = [any(len(str(row[column])) > _LONG for row in table.rows) for column in range(len(table.columns))]
    wide = f"p{{{_WRAPPED / max(1, sum(long)):.2f}\\linewidth}}"
    shape = "".join("r" if numeric else wide if wraps else "l" for numeric, wraps in zip(table.numeric, long, strict=True))
    head, *rows = (" & ".join(latex_text(str(cell)) for cell in cells) + r" \\" for cells in (table.columns, *table.rows))
    title = f"\\caption{{{latex_text(table.title)}}}\\label{{tab:{table.name}}}"
    notes = "".join(f"{latex_text(note)}.\\\\\n" for note in table.notes)
    footer = f"\\par\\smallskip\\footnotesize\\raggedright\n{notes}" if notes else ""
    body = "\n".join(rows)
    if len(rows) > _MOST_ROWS:
        return (
            f"\\begingroup\\small\n\\begin{{longtable}}{{{shape}}}\n{title}\\\\\n\\toprule\n{head}\n\\midrule\n\\endhead\n"
            f"{body}\n\\bottomrule\n\\end{{longtable}}\n{footer}\\endgroup\n"
        )
    return (
        f"\\begin{{table}}[t]\n\\centering\\small\n{title}\n\\begin{{tabular}}{{{shape}}}\n\\toprule\n{head}\n\\midrule\n"
        f"{body}\n\\bottomrule\n\\end{{tabular}}\n{footer}\\end{{table}}\n"
    )
