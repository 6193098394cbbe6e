"""What a run would do, without training anything: models, tokens, FLOPs, programs, memory and minutes."""

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from leadline.experiments.data.source import CACHE
from leadline.experiments.measure.exact.registry import jobs_of
from leadline.experiments.records.provenance import arm_digest
from leadline.experiments.records.store import read_records
from leadline.experiments.runtime.matmul import matmul_peak
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.studies.decide import looks
from leadline.experiments.studies.run import Plan
from leadline.experiments.training.group import Member, RunGroup
from leadline.experiments.training.memory import GB, Room, available_memory, parts_of, program_memory, traced_memory
from leadline.experiments.training.plan import grouped

# Of the rate of a large matrix product: what configs/sinks.toml and configs/extrapolation.toml reach on two CPU cores.
UTILISATION = 0.4
# Of the published rate of a device that is not here: public trainings of 0.1 to 2 billion parameters reach 0.3 to 0.5.
PUBLISHED_UTILISATION = 0.3
# Of compiling what a group needs, and of measuring its models at the end.
SECONDS_A_GROUP = 15.0
# Programs that are compiled to hear what memory they take. Compiling takes some seconds each, and a run finds them compiled.
COMPILED = 4


class CostEstimate(NamedTuple):
    """What a run would take.

    Attributes:
        arms: a row for each arm of every study; `programs` are the numbers of the groups in which its models train.
        groups: a row for each group. Each compiles one program of training; `memory` is what a device needs for it [GB], by the
            analysis of that program if `compiled`, else estimated from its trace.
        available: memory of a device [GB].
        assumptions: of the minutes.
    """

    arms: list[dict[str, Any]]
    groups: list[dict[str, Any]]
    available: float
    assumptions: str


def planned_looks(plan: Plan, results: Path) -> Iterator[str]:
    """Lines on what more seeds would cost: one for each look, if no claim is decided before it.

    Args:
        plan: studies with a plan for their seeds (`leadline.experiments.studies.decide.with_plan`), and their arms.
        results: the folder of the records.
    """
    for study, arms in plan:
        records = [stored.record for stored in read_records(results, study.study)[0]]
        told: list[str] = []
        for _ in looks(study, arms, lambda records=records: records, told.append) if study.exact is None else ():
            pass
        yield from told or [f"{study.study}: no claim on record is undecided for want of seeds"]


def estimated(plan: Plan, results: Path, progress: Progress, room: Room) -> CostEstimate:
    """Estimates what a run would do for the models that have no record yet.

    The corpora are read and the models traced. Programs are compiled for the devices that are here only, if there are at most
    COMPILED of them, or where it is not plain that they fit.

    Args:
        plan: studies and their arms, as `planned` gives them.
        results: the folder of the records; it need not exist. What is encoded is kept in its cache if that is there.
        progress: hears of corpora that are encoded.
        room: for a group.

    Raises:
        UserError: if data, memory or weights to start from do not suffice.
    """
    rows: list[dict[str, Any]] = []
    groups: list[RunGroup] = []
    cache = results / CACHE
    with nullcontext(cache) if os.access(cache, os.W_OK) else tempfile.TemporaryDirectory(prefix="leadline-") as kept:
        for study, arms in plan:
            for job in jobs_of(study.exact) if study.exact is not None else ():
                rows.append({"study": study.study, "arm": job.name, "models": 0, "of": 1})
            groups += grouped(study.study, arms, study.seeds, results, Path(kept), progress, room)[1] if arms else []
            rows += [{"study": study.study, "arm": arm.name, "models": 0, "of": len(study.seeds)} for arm in arms]
        memory = _memory(groups, room)
    by_arm = {(row["study"], row["arm"]): row for row in rows}
    described = []
    for number, group in enumerate(groups, start=1):
        minutes = 0.0
        for name, cost in _costs(group, room):
            _add(by_arm[group.study, name], cost, number)
            minutes += cost["minutes"]
        needed, compiled = memory[_program(group)]
        facts = {"models": len(group.members), "memory": needed / GB, "compiled": compiled, "minutes": minutes}
        described.append({"program": number, "study": group.study, "arms": group.names, **facts})
    return CostEstimate(rows, described, available_memory(room) / GB, _assumptions(room))


def remarks(plan: Plan) -> Iterator[str]:
    """Yields what can be run and is hardly meant: a warm-up that does not end, and arms of the same configuration."""
    for study, arms in plan:
        short = [arm.name for arm in arms if arm.train.warmup >= arm.train.steps]
        if short:
            yield f"{study.study}: train.warmup does not end within train.steps of {', '.join(short)}; lower it or train longer"
        equal: dict[str, list[str]] = {}
        for arm in arms:
            equal.setdefault(arm_digest(arm, None, arm.start and arm.start.arm), []).append(arm.name)
        for names in equal.values():
            if len(names) > 1:
                yield f"{study.study}: {' and '.join(names)} are the same configuration"


def _program(group: RunGroup) -> Any:
    """Groups of which this is equal compile the same program."""
    return group.structure, len(group.members), len(group.sources)


def _memory(groups: list[RunGroup], room: Room) -> dict[Any, tuple[float, bool]]:
    """Of each program the bytes of a device, and whether the compiler was asked."""
    programs = {_program(group): group for group in groups}
    if room.device is None and len(programs) <= COMPILED:
        return {key: (program_memory(group), True) for key, group in programs.items()}
    return {key: (traced_memory(group, room), False) for key, group in programs.items()}


def _costs(group: RunGroup, room: Room) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of each arm of a group, and what its models cost."""
    model, data, train, _ = group.structure
    waiting = [member for member in group.members if not member.recorded]
    parts, steps = parts_of(group), train.steps - group.first_step
    tokens = steps * train.batch * data.length
    of_arm: dict[str, Member] = {member.arm.name: member for member in waiting}
    peak = matmul_peak(model.compute) if room.device is None else room.device.peak(model.compute)
    for name, seeds in Counter(member.arm.name for member in waiting).items():
        flops = seeds * tokens * of_arm[name].flops(model)
        if room.device is None:
            seconds = flops / (UTILISATION * peak)
        else:  # weights and moments are read and written in every step
            moved = 2 * seeds * steps * parts.state / room.device.bandwidth
            seconds = max(flops / (PUBLISHED_UTILISATION * peak), moved) / room.devices
        minutes = (seconds + SECONDS_A_GROUP * seeds / len(waiting)) / 60
        parameters = parts.weights - of_arm[name].arm.model.untrained_logits
        row = {"models": seeds, "tokens": seeds * tokens, "flops": flops, "minutes": minutes, "parameters": parameters}
        yield name, row


def _add(row: dict[str, Any], cost: dict[str, Any], program: int) -> None:
    """Adds what the models of an arm cost in one more group."""
    row["parameters"] = cost["parameters"]
    for key in ("models", "tokens", "flops", "minutes"):
        row[key] = row.get(key, 0) + cost[key]
    row["programs"] = [*row.get("programs", []), program]


def _assumptions(room: Room) -> str:
    besides = f"and {SECONDS_A_GROUP:.0f} s a group to compile and to measure"
    if room.device is None:
        return f"minutes: at {UTILISATION:.0%} of the rate of a large matrix product, measured here, {besides}"
    return (
        f"minutes: at {PUBLISHED_UTILISATION:.0%} of the published {room.device.bfloat16 / 1e12:,.0f} TFLOP/s in bfloat16 and "
        f"{room.device.float32 / 1e12:,.0f} in float32 ({room.device.source}), or at {room.device.bandwidth / 1e9:,.0f} GB/s "
        f"where weights and moments bind, {besides}; small models reach less: those of 116k "
        "parameters 1 % on an H200"
    )
