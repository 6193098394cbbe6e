"""The command that measures: a published model, or a trained run again."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leadline.experiments.cli.console import AsJson, begin_jax, print_json, show_rows
from leadline.experiments.runtime.errors import UserError

if TYPE_CHECKING:
    from leadline.experiments.records.measurement import Measurement
    from leadline.experiments.studies.published import MeasuredModel

# The tables are those of leadline.experiments.studies.published_tables, whose import takes seconds.
TABLES = "inputs, context, streaming, interventions, perplexity, prompts, languages, base_bound"
MODEL = "A run, RESULTS/STUDY/ARM-HASH/sSEED; a folder or GGUF file; hub:NAME; package:NAME."
SETTINGS = "Settings to change, such as measure.windows=512; for a published model also bos=fixed."
LENGTHS = "Evaluation lengths in tokens: of perplexity; for a run also of retrieval and recall."
MOST = 2**31 - 1  # tokens; positions are int32
Model = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL)]
Settings = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help=SETTINGS)]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="TABLE,…", help=f"Measure a published model by these tables only: {TABLES}. Repeatable."),
]
Results = Annotated[
    Path, typer.Option("--results", metavar="DIR", help="Where records of published models are kept, and looked up.")
]
Corpus = Annotated[
    list[str] | None, typer.Option("--corpus", metavar="TEXT", help="A file or folder to measure on; repeatable.")
]
Lengths = Annotated[str, typer.Option("--lengths", metavar="N,N,…", help=LENGTHS)]
Layers = Annotated[bool, typer.Option("--layers", help="Show quantities layer by layer, too.")]


def measure(
    model: Model,
    overrides: Settings = None,
    only: Only = None,
    results: Results = Path("results"),
    corpus: Corpus = None,
    lengths: Lengths = "",
    layers: Layers = False,
    as_json: AsJson = False,
) -> None:
    """Measure a published model, or a trained run anew.

    A trained run may be measured on other text or lengths. What is measured of a published model is recorded.
    """
    begin_jax()
    from rich.console import Console

    from leadline.experiments.runs.loaded import named_run
    from leadline.experiments.runs.measure import measured
    from leadline.experiments.runtime.progress import Progress
    from leadline.experiments.studies.published import measured_published
    from leadline.experiments.studies.published_study import Wanted

    tokens = positive_numbers("--lengths", lengths)
    tables = [name.strip() for names in only or [] for name in names.split(",") if name.strip()]
    words, texts = overrides or [], corpus or []
    with Progress(Console(stderr=True)) as progress:
        run = named_run(model)
        if run is not None and tables:
            raise UserError(f"--only {','.join(tables)}: a run is measured by its own tables; leave --only out")
        if run is not None:
            _show(measured(run, words, texts, tokens, progress), layers=layers, as_json=as_json)
            return
        of_model = measured_published(Wanted(model, words, texts, tokens, tables), results, progress)
    if as_json:
        _show(of_model.measurements, layers=layers, as_json=True)
    else:
        _show_model(of_model, results, layers=layers)


def positive_numbers(option: str, text: str) -> list[int]:
    """The numbers of an option, each once. UserError for what is no number of tokens."""
    parts = [part.strip() for part in text.split(",")] if text else []
    if not all(part.isdecimal() and len(part) <= len(str(MOST)) and 0 < int(part) <= MOST for part in parts):
        raise UserError(f"{option} {text}: numbers of tokens above 0, at most {MOST}, with commas between them, as in 256,512")
    return list(dict.fromkeys(map(int, parts)))


def _show(numbers: Sequence["Measurement"], *, layers: bool, as_json: bool = False) -> None:
    """A row for each number, or one JSON object; numbers of one layer with `layers` alone."""
    from dataclasses import asdict

    from leadline.experiments.runs.measure import row

    shown = [entry for entry in numbers if layers or "layer" not in entry.dims]
    print_json({"measurements": [asdict(entry) for entry in shown]}) if as_json else show_rows([row(entry) for entry in shown])


def _show_model(of_model: "MeasuredModel", results: Path, *, layers: bool) -> None:
    """The tables, with `layers` every number of a layer, and where all of it is recorded."""
    from leadline.experiments.publish.table import plain

    for table in of_model.tables:
        typer.echo(plain(table))
    if layers and (by_layer := [entry for entry in of_model.measurements if "layer" in entry.dims]):
        _show(by_layer, layers=True)
    typer.echo(of_model.summary(results))
