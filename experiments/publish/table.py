"""A table as a value and its printed forms: Markdown, CSV and LaTeX (booktabs). The page prints the same as HTML."""

import csv
import io
import re
from dataclasses import dataclass

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


def is_numeric(table: Table, column: int) -> bool:
    """Whether a column holds statistics, so that it is set flush right and split in the CSV."""
    return any(isinstance(row[column], Statistic) for row in table.rows)


def markdown_text(text: str) -> str:
    """Text in one line, with everything escaped that Markdown would read as a mark."""
    return re.sub(r"([\\|*`<\[\]_])", r"\\\1", " ".join(text.split()))


def markdown(table: Table) -> str:
    """A table of GitHub's Markdown under a bold title; the notes follow as a list."""
    columns = range(len(table.columns))
    rules = ["---:" if is_numeric(table, column) else "---" for column in columns]
    lines = [[markdown_text(title) for title in table.columns], rules]
    lines += [[markdown_text(str(cell)) for cell in row] for row in table.rows]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    notes = "".join(f"\n- {markdown_text(note)}" for note in table.notes)
    return f"**{markdown_text(table.title)}**\n\n{body}\n{notes}\n" if notes else f"**{table.title}**\n\n{body}\n"


def _csv_cells(cell: Cell, numeric: bool) -> list[str]:
    """One value, or mean, std and n in full precision; a text in a numeric column stands where the mean would."""
    if isinstance(cell, Statistic):
        return [repr(cell.mean), "" if cell.std is None else repr(cell.std), str(cell.n)]
    return ["" if cell == MISSING else cell, "", ""] if numeric else [cell]


def comma_separated(table: Table) -> str:
    """RFC 4180 without the notes: mean, std and n are columns of their own, unrounded; what is missing is empty."""
    numeric = [is_numeric(table, column) for column in range(len(table.columns))]
    header: list[str] = []
    for title, split in zip(table.columns, numeric, strict=True):
        header += [f"{title} mean", f"{title} std", f"{title} n"] if split else [title]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    for row in table.rows:
        writer.writerow([part for cell, split in zip(row, numeric, strict=True) for part in _csv_cells(cell, split)])
    return text.getvalue()


_SYMBOLS = {"±": r"\pm", "×": r"\times", "≥": r"\geq", "≤": r"\leq", "→": r"\to", "ε": r"\varepsilon", "∞": r"\infty"}
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
    sides = [">" if is_numeric(table, column) else "<" for column in range(len(table.columns))]
    cells = [[f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)] for row in rows]
    return "\n".join((table.title, *("  ".join(row).rstrip() for row in cells))) + "\n"


def latex_text(text: str) -> str:
    """Text with everything escaped that TeX would read as a command."""
    return " ".join(text.split()).translate(str.maketrans(_LATEX))


# Texts longer than this wrap in LaTeX; all columns of them share this part of the line.
_LONG, _WRAPPED = 28, 0.6


def latex(table: Table) -> str:
    r"""A `table` float with booktabs rules; needs `\usepackage{booktabs}` and nothing else."""
    # Column letters of `tabular`: r for statistics, l for short texts, p for those that must wrap.
    columns = range(len(table.columns))
    long = {c for c in columns if any(len(str(row[c])) > _LONG for row in table.rows)}
    wide = f"p{{{_WRAPPED / max(1, len(long)):.2f}\\linewidth}}"
    shape = "".join("r" if is_numeric(table, c) else wide if c in long else "l" for c in columns)
    lines = [" & ".join(latex_text(title) for title in table.columns) + r" \\", r"\midrule"]
    lines += [" & ".join(latex_text(str(cell)) for cell in row) + r" \\" for row in table.rows]
    body = "\n".join(f"    {line}" for line in lines)
    notes = "".join(f"\n  {latex_text(note)}.\\\\" for note in table.notes)
    footer = f"\n  \\par\\smallskip\\footnotesize\\raggedright{notes}" if notes else ""
    return (
        "\\begin{table}[t]\n  \\centering\\small\n"
        f"  \\caption{{{latex_text(table.title)}}}\n  \\label{{tab:{table.name}}}\n"
        f"  \\begin{{tabular}}{{{shape}}}\n"
        f"    \\toprule\n{body}\n    \\bottomrule\n  \\end{{tabular}}{footer}\n"
        "\\end{table}\n"
    )
