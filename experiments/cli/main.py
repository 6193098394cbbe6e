"""The command line: arguments in, one table or one JSON object out. What needs JAX is imported by the command that needs it."""

import importlib.metadata
import logging
import os
import shlex
import sys
import tempfile
import traceback
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from leadline.experiments.cli.console import AsJson, begin_jax, complain, print_json, show_rows, show_verdicts
from leadline.experiments.cli.measure import measure
from leadline.experiments.cli.memory import memory
from leadline.experiments.cli.models import export, generate
from leadline.experiments.cli.results import claims, compare, lock, publish, report, show, status
from leadline.experiments.cli.tokens import app as tokenizer_app
from leadline.experiments.cli.tokens import tokens
from leadline.experiments.cli.tools import bench, bound, doctor, schema
from leadline.experiments.runtime.errors import Apart, UserError
from leadline.experiments.runtime.signals import Interrupted
from leadline.experiments.runtime.worker import EXPIRY

MISTAKE, FAILURE, STOPPED = 2, 1, 130


class Verbs(TyperGroup):
    """Commands in the order of their use; those of tokenizers, a group of their own, are listed after `tokens`."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = [name for name in super().list_commands(ctx) if name != "tokenizer"]
        place = 1 + names.index("tokens")
        return [*names[:place], "tokenizer", *names[place:]]


app = typer.Typer(
    name="leadline",
    cls=Verbs,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="Where records, tables and the page are kept.")]


def _print_version(wanted: bool | None) -> None:
    if wanted:
        typer.echo(f"leadline {importlib.metadata.version('leadline')}")
        raise typer.Exit


@app.callback()
def leadline(
    version: Annotated[
        bool | None, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = None,
) -> None:
    """Position encodings, attention sinks and length extrapolation of small language models, trained and measured."""


@app.command()
def run(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A study, or a suite of studies, in TOML.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings to change, such as train.steps=100.")
    ] = None,
    results: Results = Path("results"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run: models, tokens, FLOPs, programs, memory, minutes.")
    ] = False,
    decide: Annotated[bool, typer.Option("--decide", help="Add seeds where claims are undecided, up to most_seeds.")] = False,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=2, help="With --decide: maximum number of seeds; default: most_seeds of the study, or 30."),
    ] = None,
    tracker: Annotated[
        list[str] | None, typer.Option("--tracker", metavar="NAME", help="tensorboard, wandb or trackio; repeatable.")
    ] = None,
    executor: Annotated[
        str, typer.Option("--executor", metavar="NAME", help="Where groups of models train: local, ray or slurm.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option("--address", help="Ray cluster to use, or auto; default: start Ray on this machine.")
    ] = None,
    cpus: Annotated[
        int | None, typer.Option("--cpus", min=1, help="CPU cores per group; default: all of this machine.")
    ] = None,
    gpus: Annotated[float, typer.Option("--gpus", min=0, help="Accelerators per group.")] = 0.0,
    models: Annotated[int | None, typer.Option("--models", min=1, help="Maximum number of models in one group.")] = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device", metavar="NAME", help="Accelerator that groups are sized for, such as h100; default: this machine."
        ),
    ] = None,
    retries: Annotated[int, typer.Option("--retries", min=0, help="How often a group is restarted if its worker dies.")] = 3,
    slurm: Annotated[
        list[str] | None,
        typer.Option("--slurm", metavar="KEY=VALUE", help="Option for sbatch, such as partition=gpu; repeatable."),
    ] = None,
    expiry: Annotated[
        float, typer.Option("--expiry", min=0.1, help="Seconds without a heartbeat until a process counts as dead.")
    ] = EXPIRY,
    coordinator: Annotated[
        str | None,
        typer.Option(
            "--coordinator", metavar="HOST:PORT", help="Train each model in several processes: address of the first, or auto."
        ),
    ] = None,
    processes: Annotated[
        int | None, typer.Option("--processes", min=1, help="With --coordinator: number of processes.")
    ] = None,
    process: Annotated[
        int | None, typer.Option("--process", min=0, help="With --coordinator: index of this process, from 0.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train and measure a study; publish tables, figures, verdicts.

    Every arm and seed that has no record yet is trained.
    """
    _refuse_idle(
        ("--processes", processes, "--coordinator", coordinator is not None),
        ("--process", process, "--coordinator", coordinator is not None),
        ("--address", address, "--executor ray", executor == "ray"),
        ("--slurm", slurm, "--executor slurm", executor == "slurm"),
        ("--gpus", gpus or None, "--executor ray or slurm, or --device", executor != "local" or device is not None),
        ("--limit", limit, "--decide", decide),
    )
    begin_jax(cpus, None if coordinator is None else (coordinator, processes, process))
    from rich.console import Console

    from leadline.experiments.executors.hosts import follow, leading
    from leadline.experiments.executors.registry import Options, open_executor, room_of
    from leadline.experiments.runtime.hosts import leads
    from leadline.experiments.runtime.log import LOG
    from leadline.experiments.runtime.progress import Progress
    from leadline.experiments.studies.decide import with_most_seeds
    from leadline.experiments.studies.run import planned
    from leadline.experiments.studies.run import run as run_plan
    from leadline.experiments.trackers.registry import open_trackers

    plan = planned(config, overrides or [])
    if decide:
        plan = [(with_most_seeds(study, limit), arms) for study, arms in plan]
    trackers = open_trackers(tracker or [], results)
    together = coordinator is not None
    options = Options(executor, expiry, models, device, cpus, gpus, retries, address, slurm or (), together)
    if dry_run:
        if leads():
            with Progress(Console(stderr=True)) as progress:
                _show_plan(plan, results, progress, room_of(options), as_json)
        return
    trainer, command = open_executor(options, results), shlex.join(["leadline", *sys.argv[1:]])
    if not leads():  # after the options, which all processes refuse alike
        with Progress(Console(quiet=True)) as progress:
            follow(progress)
        return
    show = partial(typer.echo, file=sys.stdout)  # bound now, because a tracker may redirect what its library prints
    with Progress(Console(stderr=True), results / LOG, trackers) as progress, leading(trainer):
        ran = run_plan(plan, results, progress, (lambda _: None) if as_json else show, command, decide=decide, executor=trainer)
    if as_json:
        print_json(ran.as_json(results))
        return
    studies = {study.study for study, _ in plan}
    show_verdicts([row for row in ran.published.verdicts if row.study in studies and row.outcome != "not measured"])
    typer.echo(
        f"\n{ran.trained} models trained, {ran.recorded} on record before, {len(ran.programs)} programs compiled, "
        f"{ran.seconds:.0f} s\npage: {ran.published.page}"
    )


ABOUT_RESULTS = (status, show, measure, compare, report, lock, claims, publish)
ABOUT_MODELS = (generate, export, bound, memory, tokens, bench, schema, doctor)
for command in ABOUT_RESULTS + ABOUT_MODELS:
    app.command()(command)
app.add_typer(tokenizer_app, name="tokenizer")


def _refuse_idle(*options: tuple[str, Any, str, bool]) -> None:
    """Refuses an option that has no effect: its name, its value, what it needs, and whether that is given."""
    for name, value, other, given in options:
        if value is not None and not given:
            raise UserError(f"{name} needs {other}")


def _show_plan(plan: Any, results: Path, progress: Any, room: Any, as_json: bool) -> None:
    from leadline.experiments.records.over_seeds import count
    from leadline.experiments.studies.dry_run import estimated, remarks

    for line in remarks(plan):
        complain(line)
    estimate = estimated(plan, results, progress, room)
    if as_json:
        print_json(estimate._asdict())
        return
    forms = {"parameters": count, "tokens": count, "flops": count, "minutes": "{:.1f}".format}
    columns = list(dict.fromkeys(key for row in estimate.arms for key in row if key != "programs"))
    shown = [{key: forms.get(key, str)(row[key]) if key in row else "" for key in columns} for row in estimate.arms]
    programs = [", ".join(map(str, row.get("programs", ()))) for row in estimate.arms]
    show_rows([row | {"programs": numbers} for row, numbers in zip(shown, programs, strict=True)])
    groups, minutes = estimate.groups, [group["minutes"] for group in estimate.groups]
    if groups:
        typer.echo()
        show_rows([_of_group(group) for group in groups])
    where = "here" if room.device is None else f"on {room.devices} x {room.device.kind}"
    typer.echo(
        f"\nmodels to train: {sum(row['models'] for row in estimate.arms)}; programs: {len(groups)}; about {sum(minutes):.0f} "
        f"min {where}, {max(minutes, default=0.0):.0f} with a worker for each; memory of a device: {estimate.available:.1f} GB"
        f"\n{estimate.assumptions}"
    )


def _of_group(group: Any) -> dict[str, str]:
    memory = f"{'' if group['compiled'] else '≈ '}{group['memory']:.2f} GB"
    return {key: str(group[key]) for key in ("program", "study", "models")} | {
        "memory": memory,
        "minutes": f"{group['minutes']:.1f}",
        "arms": group["arms"],
    }


def _tell_unraisable(error: Any) -> None:
    """Where a disk refuses, Orbax ends before its writes do, and each of these would print a traceback."""
    if str(error.exc_value) != "Event loop is closed":
        sys.__unraisablehook__(error)


def main() -> None:
    """Errors are lines on standard error: exit 2 for the user's mistakes, 1 for failures, 130 when stopped."""
    logging.getLogger("absl").setLevel(logging.CRITICAL)  # what Orbax logs as an error it raises too
    sys.unraisablehook = _tell_unraisable
    try:
        status = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except typer.TyperException as error:
        complain(error.format_message())
        sys.exit(MISTAKE)
    except Apart as error:
        complain(str(error))
        sys.stderr.flush()
        os._exit(MISTAKE)  # JAX would wait for processes that are gone, and abort
    except UserError as error:
        complain(str(error))
        sys.exit(MISTAKE)
    except Interrupted as stopped:
        complain(f"{stopped}; to go on, run the same command again")
        sys.exit(STOPPED)
    except (KeyboardInterrupt, typer.Abort):
        complain("stopped")
        sys.exit(STOPPED)
    except MemoryError as error:
        complain(
            f"{str(error) or 'out of memory'}: this machine does not hold it; make the model, its texts or its groups smaller"
        )
        sys.exit(MISTAKE)
    except OSError as error:
        complain(f"{error.filename or 'a file'}: {error.strerror or error}")
        sys.exit(FAILURE)
    except Exception as error:  # the last one who can say it in one line
        with tempfile.NamedTemporaryFile("w", prefix="leadline-", suffix=".log", encoding="utf-8", delete=False) as file:
            traceback.print_exc(file=file)
        complain(" ".join(f"{type(error).__name__}: {error} (this is a defect; {file.name} has the traceback)".split()))
        sys.exit(FAILURE)
    sys.exit(status or 0)
