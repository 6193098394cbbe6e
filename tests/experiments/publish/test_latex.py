"""The tables of the published records, compiled with LaTeX."""

import shutil
import subprocess
from pathlib import Path

import pytest

from leadline.experiments.publish.contents import contents_of
from leadline.experiments.publish.table import latex
from leadline.experiments.records.packed import PACKED
from tests.experiments.publish.test_table import TABLE

RESULTS = Path(__file__).parents[3] / "docs" / "results"
DOCUMENT = r"""\documentclass{article}
\usepackage{booktabs}
\usepackage{longtable}
\begin{document}
%s
\end{document}
"""


def compile_tables(texts: list[str], folder: Path) -> None:
    pdflatex = shutil.which("pdflatex")
    if pdflatex is None:
        pytest.skip("pdflatex is not installed: Debian has it in texlive-latex-recommended")
    body = "\n\\clearpage\n".join(texts)
    (folder / "tables.tex").write_text(DOCUMENT % body, encoding="utf-8")
    command = [pdflatex, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "tables.tex"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stdout.decode(errors="replace")[-2000:]
    assert (folder / "tables.pdf").stat().st_size > 1000


def test_a_table_of_hostile_texts_compiles(tmp_path: Path) -> None:
    compile_tables([latex(TABLE)], tmp_path)


@pytest.mark.slow
def test_every_published_table_compiles(tmp_path: Path) -> None:
    if not list(RESULTS.glob(f"*/{PACKED}")):
        pytest.skip("docs/results holds no packed records yet: run make publish")
    compile_tables([latex(table) for table in contents_of(RESULTS, drawn=()).tables], tmp_path)
