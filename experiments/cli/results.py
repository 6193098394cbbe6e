"""The commands about what is recorded: lists, comparisons, tables, figures, the page and the ledger."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from leadline.experiments.cli.console import AsJson, complain, print_json, refuse_idle, show_rows, show_verdicts, show_while
from leadline.experiments.runtime.errors import UserError

LOCK, LOCKED = Path("ledger.lock"), "The file of locked claims."
Lock = Annotated[Path, typer.Option("--lock", metavar="FILE", help=LOCKED)]
PUBLISHED = Path("docs/results")
Folder = Annotated[Path, typer.Argument(metavar="[DIR]", help="The results folder.")]
SIDE = "A results folder, RESULTS/STUDY, RESULTS/STUDY/ARM-HASH, or a run in it."


def show(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help=SIDE)] = Path("results"),
    as_json: AsJson = False,
) -> None:
    """List runs with state, step, loss and key figures."""
    from dataclasses import asdict

    from leadline.experiments.runs.show import listed, row

    arms, notes = listed(folder)
    for note in notes:
        complain(note)
    print_json({"arms": [asdict(arm) for arm in arms]}) if as_json else show_rows([row(arm) for arm in arms])


def status(
    folder: Folder = Path("results"),
    watch: Annotated[bool, typer.Option("--watch", help="Update the table until no group runs or waits.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the groups that runs are at work on, from any machine."""
    from leadline.experiments.runs.status import going, groups_at, row

    if watch and as_json:
        raise UserError("--watch has no effect with --json: leave one of them out")
    groups = groups_at(_existing(folder))
    if as_json:
        print_json({"groups": groups})
        return
    if not groups and not watch:
        typer.echo(f"no run is at work in {folder}; leadline show {folder} lists what is recorded")
        return
    if watch:
        show_while(lambda: [row(group) for group in groups_at(folder)], going)
    else:
        show_rows([row(group) for group in groups])


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help=SIDE)],
    second: Annotated[Path, typer.Argument(metavar="B", help="What to compare A with, given like A.")],
    everything: Annotated[bool, typer.Option("--all", help="Show what does not differ beyond noise, too.")] = False,
    layers: Annotated[bool, typer.Option("--layers", help="Compare quantities layer by layer, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what differs in settings, and in results beyond noise.

    Beyond noise is q < 0.05 (Benjamini and Hochberg) over all quantities, by Student's t of the seeds that both sides have, or
    by Welch's t. The text that is measured on counts as fixed.
    """
    from leadline.experiments.runs.compare import beyond_noise, compared, rows

    comparison = compared(first, second, layers=layers)
    for note in comparison.notes:
        complain(note)
    shown = comparison.results if everything else beyond_noise(comparison)
    if as_json:
        print_json({"settings": comparison.settings, "results": [entry.as_json() for entry in shown]})
        return
    show_rows(comparison.settings) if comparison.settings else typer.echo("the settings are the same")
    typer.echo()
    show_rows(rows(shown)) if shown else typer.echo("nothing differs beyond noise")
    typer.echo(f"\n{len(comparison.results)} quantities were compared")


def report(
    folder: Folder = Path("results"),
    into: Annotated[Path | None, typer.Option("--into", metavar="FILE", help="Also fill the tables in this file.")] = None,
    inline: Annotated[bool, typer.Option("--inline", help="Put the pictures into the page, which is then one file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Rebuild tables, figures and the page from the records."""
    from leadline.experiments.publish.export import rewrite, text_with_blocks
    from leadline.experiments.publish.report import report as rebuild

    if into is not None:
        text_with_blocks(into)  # what cannot be filled is said before anything is rebuilt
    published = rebuild(_existing(folder), inline=inline)
    for note in published.notes:
        complain(note)
    if into is not None:
        rewrite(into, {path.stem: path.read_text(encoding="utf-8") for path in published.tables if path.suffix == ".md"})
    if as_json:
        files = {"tables": published.tables, "figures": published.figures}
        print_json({"page": str(published.page), **{kind: [str(path) for path in paths] for kind, paths in files.items()}})
        return
    typer.echo(f"{len(published.tables)} tables, {len(published.figures)} figures\npage: {published.page}")


def claims(
    folder: Folder = Path("results"),
    check_lock: Annotated[
        bool, typer.Option("--check-lock", help="Check instead that claims, seeds and runs are those that were locked.")
    ] = False,
    lock: Annotated[Path | None, typer.Option("--lock", metavar="FILE", help=f"{LOCKED} Default: {LOCK}")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the ledger: statements with their verdicts."""
    from dataclasses import asdict

    from leadline.experiments.publish.contents import contents_of

    refuse_idle(("--lock", lock, "--check-lock", check_lock))
    if check_lock and as_json:
        raise UserError("--json has no effect with --check-lock: leave one of them out")
    if check_lock:
        _check_lock(_existing(folder), lock or LOCK)
        return
    contents = contents_of(_existing(folder), drawn=())
    for note in contents.notes:
        complain(note)
    verdicts = contents.verdicts
    print_json({"claims": [asdict(verdict) for verdict in verdicts]}) if as_json else show_verdicts(verdicts)


def _check_lock(folder: Path, path: Path) -> None:
    from leadline.experiments.records.store import existing_records, read_studies
    from leadline.experiments.studies.lock import locked_since, problems, read_lock

    studies, (stored, notes) = read_studies(folder), existing_records(folder)
    locked = read_lock(path)
    records = [entry.record for entry in stored]
    lost = sorted({record.study for record in records} - set(studies))
    mistakes = [*notes, *(f"{name}: its study.json is missing, so its claims are not known; run it again" for name in lost)]
    mistakes += problems(locked, studies.values(), records, partial(locked_since, path))
    for mistake in mistakes:
        complain(mistake)
    if mistakes:
        raise typer.Exit(1)
    typer.echo(f"{len(studies)} studies: every claim is as it was locked, before its runs")


def lock(
    configs: Annotated[list[Path], typer.Argument(metavar="CONFIG...", help="Studies or suites, in TOML.")],
    into: Lock = LOCK,
    published: Annotated[Path, typer.Option("--published", metavar="DIR", help="Published studies.")] = PUBLISHED,
) -> None:
    """Freeze the claims and seeds of studies before they are run.

    Thresholds and arms are frozen too. Claims of other studies keep their digest. Models that another published study has
    trained with the same seeds are named, since they cannot confirm what was seen there.
    """
    from leadline.experiments.config.load import load_all
    from leadline.experiments.records.store import read_records
    from leadline.experiments.studies.lock import digests, read_lock, repeated, write_lock

    studies = load_all(configs)
    names = {study.study for study in studies}
    before = read_lock(into) if into.exists() else {}
    kept = {key: digest for key, digest in before.items() if key.partition("/")[0] not in names}
    locked = digests(studies)
    write_lock(into, kept | locked)
    records = [entry.record for entry in read_records(published)[0]] if published.is_dir() else []
    for study in studies:
        for models in repeated(study, records):
            complain(f"{models}; choose seeds that no study has trained")
    frozen = {key.partition("/")[0] for key in locked}
    for name in sorted(names - frozen):
        complain(f"{name}: nothing to lock; it has no claims, or none that seeds decide")
    if frozen:
        typer.echo(f"{into}: claims of {', '.join(sorted(frozen))} are locked; commit this file before you run them")


def publish(
    folder: Folder = Path("results"),
    into: Annotated[Path, typer.Option("--into", metavar="DIR", help="The folder that is published.")] = PUBLISHED,
    text: Annotated[Path | None, typer.Option("--text", metavar="FILE", help="Markdown file whose tables are filled.")] = None,
    page: Annotated[Path | None, typer.Option("--findings", metavar="FILE", help="Markdown page of findings to write.")] = None,
    planned: Annotated[
        list[Path] | None, typer.Option("--planned", metavar="CONFIG", help="List the claims of this file as not measured.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Pack records, tables and figures for publication.

    Records that are packed already and are not in DIR are never overwritten: it stops and names them.
    """
    from dataclasses import asdict

    from leadline.experiments.config.load import load_all
    from leadline.experiments.publish.export import export

    exported = export(_existing(folder), into, text, page, load_all(planned or ()))
    if as_json:
        print_json(asdict(exported))
        return
    for note in exported.notes:
        complain(note)
    typer.echo(f"{', '.join(exported.studies)}: {exported.files} files, {exported.bytes:,} bytes in {into}")


def _existing(folder: Path) -> Path:
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such results folder; leadline run makes one")
    return folder
