"""The command line: arguments in, one table or one JSON object out. What needs JAX is imported by the command that needs it."""

import itertools
import logging
import shlex
import sys
import tempfile
import traceback
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from leadline.experiments.cli.console import AsJson, complain, print_json, show_rows
from leadline.experiments.cli.tokens import app as tokenizer_app
from leadline.experiments.cli.tokens import tokens
from leadline.experiments.cli.tools import bench, bound, generate
from leadline.experiments.runtime.cpu import cores, restart_with_huge_pages
from leadline.experiments.runtime.errors import UserError

MISTAKE, FAILURE, STOPPED = 2, 1, 130

app = typer.Typer(
    name="leadline",
    help="Position encodings, attention sinks and length extrapolation of small language models, trained and measured.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="Where records, tables and the page are kept.")]
Folder = Annotated[Path, typer.Argument(metavar="[DIR]", help="The results folder.")]
app.command()(tokens)
app.command()(bench)
app.command()(bound)
app.command()(generate)
app.add_typer(tokenizer_app, name="tokenizer")


@app.command()
def run(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A study, or a suite of studies, in TOML.")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="As in train.steps=100.")] = None,
    results: Results = Path("results"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would run: parameters, tokens, FLOPs.")] = False,
    tracker: Annotated[
        list[str] | None, typer.Option("--tracker", metavar="NAME", help="tensorboard, wandb or trackio; may be given again.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a study: every arm and seed that has no record yet; then publish tables, figures, page and verdicts."""
    _begin_jax()
    from rich.console import Console

    from leadline.experiments.runtime.log import LOG
    from leadline.experiments.runtime.progress import Progress
    from leadline.experiments.runtime.signals import Interrupted
    from leadline.experiments.studies.run import described, planned
    from leadline.experiments.studies.run import run as run_plan
    from leadline.experiments.trackers.registry import open_trackers

    plan = planned(config, overrides or [])
    if dry_run:
        rows = described(plan)
        print_json({"arms": rows}) if as_json else show_rows(rows)
        return
    trackers = open_trackers(tracker or [], results)
    show = partial(typer.echo, file=sys.stdout)  # bound now, because a tracker may redirect what its library prints
    try:
        with Progress(Console(stderr=True), results / LOG, trackers) as progress:
            command = shlex.join(["leadline", *sys.argv[1:]])
            ran = run_plan(plan, results, progress, (lambda _: None) if as_json else show, command)
    except Interrupted as stopped:
        complain(f"{stopped}; to go on, run the same command again")
        raise typer.Exit(STOPPED) from None
    if as_json:
        print_json(ran.as_json(results))
        return
    studies = {study.study for study, _ in plan}
    _show_verdicts([row for row in ran.published.verdicts if row.study in studies and row.outcome != "not measured"])
    typer.echo(
        f"\n{ran.trained} models trained, {ran.recorded} on record before, {len(ran.programs)} programs compiled, "
        f"{ran.seconds:.0f} s\npage: {ran.published.page}"
    )


@app.command()
def report(
    folder: Folder = Path("results"),
    into: Annotated[Path | None, typer.Option("--into", metavar="FILE", help="Also fill this file's table blocks.")] = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild tables (Markdown, CSV, LaTeX), figures and the page from the records."""
    from leadline.experiments.publish.export import rewrite
    from leadline.experiments.publish.report import report as rebuild

    published = rebuild(_existing(folder))
    for note in published.notes:
        complain(note)
    if into is not None:
        rewrite(into, {path.stem: path.read_text(encoding="utf-8") for path in published.tables if path.suffix == ".md"})
    if as_json:
        files = {"tables": published.tables, "figures": published.figures}
        print_json({"page": str(published.page), **{kind: [str(path) for path in paths] for kind, paths in files.items()}})
        return
    typer.echo(f"{len(published.tables)} tables, {len(published.figures)} figures\npage: {published.page}")


@app.command()
def claims(folder: Folder = Path("results"), as_json: AsJson = False) -> None:
    """The ledger: published statements with their verdicts on the records."""
    from dataclasses import asdict

    from leadline.experiments.publish.report import compiled

    contents = compiled(_existing(folder), drawn=())
    for note in contents.notes:
        complain(note)
    verdicts = contents.verdicts
    print_json({"claims": [asdict(verdict) for verdict in verdicts]}) if as_json else _show_verdicts(verdicts)


@app.command()
def publish(
    folder: Folder = Path("results"),
    into: Annotated[Path, typer.Option("--into", metavar="DIR", help="The folder that is published.")] = Path("docs/results"),
    text: Annotated[Path, typer.Option("--text", metavar="FILE", help="Markdown whose tables are filled.")] = Path("README.md"),
    as_json: AsJson = False,
) -> None:
    """Pack records into one file a study, with Markdown tables and the figures that a text shows."""
    from dataclasses import asdict

    from leadline.experiments.publish.export import export

    exported = export(_existing(folder), into, text)
    if as_json:
        print_json(asdict(exported))
        return
    for note in exported.notes:
        typer.echo(note)
    typer.echo(f"{', '.join(exported.studies)}: {exported.files} files, {exported.bytes:,} bytes in {into}")


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Versions and devices, and what is missing."""
    _begin_jax()
    import jax.numpy as jnp

    from leadline.experiments.records.provenance import provenance
    from leadline.experiments.runtime.program_cache import kept_where
    from leadline.model.attention.attention import form
    from leadline.model.attention.scores import Scores

    facts = {**provenance(), "programs": kept_where()}
    if as_json:
        print_json(facts)
        return
    for name, version in facts["versions"].items():
        typer.echo(f"{name:18} {version}")
    device = facts["device"]
    typer.echo(f"{'devices':18} {device['count']} x {device['kind']} ({device['platform']})")
    if device["platform"] == "cpu":
        typer.echo(f"{'accelerator':18} none; for one, install the extra that fits it: .[cuda13], .[cuda12] or .[tpu]")
    heads = {"device": device["platform"], "channels": 64, "itemsize": 2}
    by_form = itertools.groupby((2**n for n in range(21)), lambda tokens: form(tokens, tokens, **heads))
    *shorter, (longest, _) = [(name, max(lengths)) for name, lengths in by_form]
    forms = "".join(f"{name} up to {tokens} tokens, " for name, tokens in shorter) + longest + (" beyond" if shorter else "")
    other = form(1, 1, **heads, scores=Scores(cap=jnp.float32(1)))
    typer.echo(f"{'attention':18} softmax, window, initial tokens, ALiBi, sink logit: {forms}; others: {other}")
    typer.echo(f"{'compiled programs':18} {facts['programs'] or 'not kept'}")
    typer.echo(f"{'commit':18} {facts['commit'] or 'not in a git checkout'}")


def main() -> None:
    """Errors are one line on standard error: exit 2 for the user's mistakes, 1 for failures, 130 when stopped."""
    logging.getLogger("absl").setLevel(logging.CRITICAL)  # what Orbax logs as an error it raises too
    try:
        status = app(standalone_mode=False)
    except typer.TyperException as error:
        complain(error.format_message())
        sys.exit(MISTAKE)
    except UserError as error:
        complain(str(error))
        sys.exit(MISTAKE)
    except (KeyboardInterrupt, typer.Abort):
        complain("stopped")
        sys.exit(STOPPED)
    except OSError as error:
        complain(f"{error.filename or 'a file'}: {error.strerror or error}")
        sys.exit(FAILURE)
    except Exception as error:  # the last one who can say it in one line
        with tempfile.NamedTemporaryFile("w", prefix="leadline-", suffix=".log", encoding="utf-8", delete=False) as file:
            traceback.print_exc(file=file)
        complain(f"{type(error).__name__}: {error} (this is a defect; {file.name} has the traceback)")
        sys.exit(FAILURE)
    sys.exit(status or 0)


def _begin_jax() -> None:
    """Before JAX starts: huge pages, and on a CPU a device a core, so that the models of an ensemble train side by side."""
    restart_with_huge_pages()
    import jax

    from leadline.experiments.runtime.program_cache import keep_programs

    jax.config.update("jax_num_cpu_devices", cores())
    note = keep_programs()
    if note is not None:
        complain(note)


def _existing(folder: Path) -> Path:
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such results folder; leadline run makes one")
    return folder


def _show_verdicts(verdicts: Iterable[Any]) -> None:
    if rows := [{"claim": v.id, "published": v.published, "measured": v.measured, "verdict": v.outcome} for v in verdicts]:
        show_rows(rows)
