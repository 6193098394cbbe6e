"""What groups of models report while they train: work for a progress display, curves and records for trackers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from leadline.experiments.config.study import Arm
from leadline.experiments.config.to_model import training_flops
from leadline.experiments.records.json_file import strict_json
from leadline.experiments.records.measurement import Reading
from leadline.experiments.records.portable import portable
from leadline.experiments.records.record import Record, StoredRecord
from leadline.experiments.runtime.progress import Progress, Work
from leadline.experiments.runtime.tracking import Run
from leadline.experiments.training.group import Member, RunGroup, structure
from leadline.experiments.training.saving import History


def work_of(group: RunGroup, part: str) -> Work:
    """The training of a group, as `part` of its study."""
    model, data, train, _ = group.structure
    tokens = train.batch * data.length
    return Work(
        name=f"{group.study}: {group.names} x {len({member.seed for member in group.members})}",
        steps=train.steps,
        first=group.first_step,
        part=part,
        arms=tuple(member.arm.name for member in group.members),
        tokens=tokens * len(group.members),
        flops=tokens * sum(member.flops(model) for member in group.members),
        dtype=model.compute,
    )


def flops_left(group: RunGroup) -> float:
    """FLOPs of the steps that a group has before it."""
    work = work_of(group, "")
    return work.flops * (work.steps - work.first)


def flops_expected(arms: Sequence[Arm], seeds: Sequence[int], records: Iterable[StoredRecord]) -> list[float]:
    """An estimate, before any corpus is read, of the FLOPs of each group that a study will train.

    A model counts as recorded if a record has its seed and its settings, whatever the corpus says.
    """
    recorded = {(stored.record.seed, _settings(stored.record.config)) for stored in records if stored.record.steps}
    groups: dict[Any, float] = {}
    for arm in arms:
        settings = _settings(arm.model_dump(mode="json"))
        missing = sum((seed, settings) not in recorded for seed in seeds)
        if missing:
            common = structure(arm)
            token = training_flops(common.model, arm.data.length, arm.model)
            key = arm.start is None, common
            flops = missing * arm.train.steps * arm.train.batch * arm.data.length * token
            groups[key] = groups.get(key, 0.0) + flops
    return list(groups.values())


def _settings(config: Mapping[str, Any]) -> str:
    """What decides the numbers of a model, but for the content of its corpus."""
    data = {key: value for key, value in config["data"].items() if key != "corpus"}
    return str(strict_json([config["model"], data, config["train"], config["measure"], config.get("start")]))


def report_curves(group: RunGroup, history: History, progress: Progress) -> None:
    """Gives trackers the curve of each member, up to the step at which it diverged."""
    for member, curve, diverged in zip(group.members, history.curves, history.diverged, strict=True):
        points = curve if diverged is None else curve.until(diverged[0])
        values = points.values
        progress.curve(_run(group.study, member), points.steps, lambda values=values: {_name(k): v for k, v in values.items()})


def report_record(record: Record, progress: Progress) -> None:
    """Gives trackers the final measurements of a record."""
    run = Run(record.study, record.arm, record.arm_hash, record.seed, lambda: record.config)
    numbers = {_name(entry.reading): entry.value for entry in record.measurements if entry.value is not None}
    progress.final(run, lambda: numbers)


def _run(study: str, member: Member) -> Run:
    return Run(study, member.arm.name, member.digest, member.seed, lambda: portable(member.arm.model_dump(mode="json")))


def _name(key: Reading) -> str:
    """The name of a reading, as `perplexity/extension_yarn/length_512`. Trackers group names by their first part."""
    return "/".join([key.quantity, *(f"{dim}_{value}" for dim, value in key.dims)])
