"""What a run would do, without training anything: models, tokens, FLOPs, programs, memory and minutes."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from leadline.experiments.measure.exact.registry import jobs_of
from leadline.experiments.records.provenance import arm_digest
from leadline.experiments.runtime.progress import Progress, matmul_peak
from leadline.experiments.studies.run import Plan
from leadline.experiments.training.group import RunGroup
from leadline.experiments.training.memory import GB, least_memory, parameters
from leadline.experiments.training.plan import grouped

# Of the rate of a large matrix product: what configs/sinks.toml and configs/extrapolation.toml reach on two CPU cores.
UTILISATION = 0.4
# Of compiling what a group needs, and of measuring its models at the end.
SECONDS_A_GROUP = 15.0


def described(plan: Plan, results: Path, progress: Progress) -> list[dict[str, Any]]:
    """A row for each arm of every study, of the models that have no record yet.

    The corpora are read and the models traced, but nothing is compiled. `program` numbers what is compiled: arms of one number
    train in one program. `memory` is the least that a device needs for the arms of that number together [GB]. `minutes` come
    from the FLOPs, at UTILISATION of the rate that a matrix product reaches here.

    Args:
        plan: studies and their arms, as `planned` gives them.
        results: the folder of the records; it need not exist, and nothing is recorded in it.
        progress: hears of corpora that are encoded.

    Raises:
        UserError: if data, memory or weights to start from do not suffice.
    """
    rows: list[dict[str, Any]] = []
    programs = 0
    with nullcontext(results) if results.is_dir() else tempfile.TemporaryDirectory(prefix="leadline-") as folder:
        for study, arms in plan:
            for job in jobs_of(study.exact) if study.exact is not None else ():
                rows.append({"study": study.study, "arm": job.name, "models": 0, "of": 1})
            _, groups = grouped(study.study, arms, study.seeds, Path(folder), progress) if arms else ([], [])
            of_study = {arm.name: {"study": study.study, "arm": arm.name, "models": 0, "of": len(study.seeds)} for arm in arms}
            for number, group in enumerate(groups, start=programs + 1):
                for name, row in _of_group(group, number):
                    of_study[name] |= row | {"models": of_study[name]["models"] + row["models"]}
            programs += len(groups)
            rows += of_study.values()
    return rows


def remarks(plan: Plan) -> Iterator[str]:
    """Yields what can be run and is hardly meant: a warm-up that does not end, and arms of the same configuration."""
    for study, arms in plan:
        short = [arm.name for arm in arms if arm.train.warmup >= arm.train.steps]
        if short:
            yield f"{study.study}: the warm-up does not end within the training of {', '.join(short)}"
        equal: dict[str, list[str]] = {}
        for arm in arms:
            equal.setdefault(arm_digest(arm, None, arm.start and arm.start.arm), []).append(arm.name)
        for names in equal.values():
            if len(names) > 1:
                yield f"{study.study}: {' and '.join(names)} are the same configuration"


def _of_group(group: RunGroup, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of each arm of a group, and what its models cost."""
    model, data, train, _ = group.structure
    waiting = [member for member in group.members if not member.recorded]
    memory, rate = least_memory(group) / GB, UTILISATION * matmul_peak(model.compute)
    tokens = (train.steps - group.first_step) * train.batch * data.length
    for name, seeds in Counter(member.arm.name for member in waiting).items():
        flops = seeds * tokens * next(member for member in waiting if member.arm.name == name).flops(model)
        seconds = flops / rate + SECONDS_A_GROUP * seeds / len(waiting)
        yield (
            name,
            {
                "models": seeds,
                "parameters": parameters(group),
                "tokens": seeds * tokens,
                "flops": flops,
                "program": number,
                "memory": memory,
                "minutes": seconds / 60,
            },
        )
