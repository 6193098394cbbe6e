"""The command that trains and measures a study."""

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leadline.experiments.cli.console import (
    AsJson,
    begin_jax,
    complain,
    finite,
    print_json,
    refuse_idle,
    show_rows,
    show_verdicts,
)
from leadline.experiments.runtime.worker_files import EXPIRY

if TYPE_CHECKING:
    from leadline.experiments.executors.registry import Options

RETRIES = 3
Config = Annotated[Path, typer.Argument(metavar="CONFIG", help="A study, or a suite of studies, in TOML.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings to change, such as train.steps=100.")
]
Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="Where records, tables and the page are kept.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would run: models, tokens, FLOPs, programs, memory, minutes.")
]
Decide = Annotated[bool, typer.Option("--decide", help="Add seeds where claims are undecided, up to most_seeds.")]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", min=2, metavar="N", help="With --decide, without most_seeds: maximum number of seeds; default: 30."
    ),
]
Tracker = Annotated[
    list[str] | None, typer.Option("--tracker", metavar="NAME", help="tensorboard, wandb or trackio; repeatable.")
]
Executor = Annotated[str, typer.Option("--executor", metavar="NAME", help="Where groups of models train: local, ray or slurm.")]
Address = Annotated[
    str | None,
    typer.Option("--address", metavar="HOST:PORT", help="Ray cluster to use, or auto; default: start Ray on this machine."),
]
Cpus = Annotated[
    int | None, typer.Option("--cpus", min=1, metavar="N", help="CPU cores per group; default: all of this machine.")
]
Gpus = Annotated[float, typer.Option("--gpus", min=0, callback=finite, metavar="N", help="Accelerators per group.")]
Models = Annotated[int | None, typer.Option("--models", min=1, metavar="N", help="Maximum number of models in one group.")]
Device = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="NAME", help="Accelerator that groups are sized for, such as h100; default: this machine."
    ),
]
Retries = Annotated[
    int | None,
    typer.Option("--retries", min=0, metavar="N", help=f"Restarts of a group whose worker dies; default: {RETRIES}."),
]
Slurm = Annotated[
    list[str] | None,
    typer.Option("--slurm", metavar="KEY=VALUE", help="Option for sbatch, such as partition=gpu; repeatable."),
]
Expiry = Annotated[
    float,
    typer.Option(
        "--expiry",
        min=0.1,
        callback=finite,
        metavar="SECONDS",
        help="Seconds without a heartbeat until a process counts as dead.",
    ),
]
Coordinator = Annotated[
    str | None,
    typer.Option(
        "--coordinator", metavar="HOST:PORT", help="Train each model in several processes: address of the first, or auto."
    ),
]
Processes = Annotated[
    int | None, typer.Option("--processes", min=1, metavar="N", help="With --coordinator: number of processes.")
]
Process = Annotated[
    int | None, typer.Option("--process", min=0, metavar="N", help="With --coordinator: index of this process, from 0.")
]


def run(
    config: Config,
    overrides: Overrides = None,
    results: Results = Path("results"),
    dry_run: DryRun = False,
    decide: Decide = False,
    limit: Limit = None,
    tracker: Tracker = None,
    executor: Executor = "local",
    address: Address = None,
    cpus: Cpus = None,
    gpus: Gpus = 0.0,
    models: Models = None,
    device: Device = None,
    retries: Retries = None,
    slurm: Slurm = None,
    expiry: Expiry = EXPIRY,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
    as_json: AsJson = False,
) -> None:
    """Train and measure a study; write tables, figures, verdicts.

    Every arm and seed that has no record yet is trained.
    """
    together = coordinator is not None
    refuse_idle(
        ("--processes", processes, "--coordinator", together),
        ("--process", process, "--coordinator", together),
        ("--address", address, "--executor ray", executor == "ray"),
        ("--slurm", slurm, "--executor slurm", executor == "slurm"),
        ("--retries", retries, "--executor ray or slurm", executor != "local"),
        ("--gpus", gpus or None, "--executor ray or slurm, or --device", executor != "local" or device is not None),
        ("--limit", limit, "--decide", decide),
    )
    begin_jax(cpus, None if coordinator is None else (coordinator, processes, process))
    from leadline.experiments.executors.registry import Options
    from leadline.experiments.records.store import read_studies
    from leadline.experiments.studies.decide import with_plan
    from leadline.experiments.studies.run import planned
    from leadline.experiments.trackers.registry import open_trackers

    plan, recorded = planned(config, overrides or []), read_studies(results)
    plan = [(with_plan(study, recorded.get(study.study), limit, decide=decide), arms) for study, arms in plan]
    trackers = open_trackers(tracker or [], results)
    options = Options(
        executor,
        expiry,
        models=models,
        device=device,
        cpus=cpus,
        gpus=gpus,
        retries=RETRIES if retries is None else retries,
        address=address,
        slurm=slurm or (),
        together=together,
    )
    if dry_run:
        _show_plan(plan, results, options, decide=decide, as_json=as_json)
    else:
        _run(plan, results, options, trackers, decide=decide, as_json=as_json)


def _run(plan: Any, results: Path, options: "Options", trackers: Any, *, decide: bool, as_json: bool) -> None:
    """Trains and publishes; the process that leads prints."""
    from rich.console import Console

    from leadline.experiments.executors.hosts import follow, leading
    from leadline.experiments.executors.registry import open_executor
    from leadline.experiments.runtime.hosts import leads
    from leadline.experiments.runtime.log import LOG
    from leadline.experiments.runtime.progress import Progress
    from leadline.experiments.studies.run import run as run_plan

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


def _show_plan(plan: Any, results: Path, options: "Options", *, decide: bool, as_json: bool) -> None:
    """Prints what would run; of several processes the one that leads does."""
    from rich.console import Console

    from leadline.experiments.executors.registry import room_of
    from leadline.experiments.records.captions import count
    from leadline.experiments.runtime.hosts import leads
    from leadline.experiments.runtime.progress import Progress
    from leadline.experiments.studies.dry_run import estimated, planned_looks, remarks

    if not leads():
        return
    room = room_of(options)
    for line in remarks(plan):
        complain(line)
    with Progress(Console(stderr=True)) as progress:
        estimate = estimated(plan, results, progress, room)
    more = list(planned_looks(plan, results)) if decide else []
    if as_json:
        print_json(estimate._asdict() | ({"looks": more} if decide else {}))
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
    if more:
        typer.echo("\n" + "\n".join(more))


def _of_group(group: Any) -> dict[str, str]:
    memory = f"{'' if group['compiled'] else '≈ '}{group['memory']:.2f} GB"
    return {key: str(group[key]) for key in ("program", "study", "models")} | {
        "memory": memory,
        "minutes": f"{group['minutes']:.1f}",
        "arms": group["arms"],
    }
