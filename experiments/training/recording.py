"""From trained models to records."""

from collections.abc import Sequence

import jax
import numpy as np

from leadline.experiments.measure.kinds.kind import Models
from leadline.experiments.measure.kinds.registry import final_points, quantities_of
from leadline.experiments.records.measurement import Point, measurements_of
from leadline.experiments.records.provenance import Provenance, now
from leadline.experiments.records.record import Record
from leadline.experiments.records.store import write_record
from leadline.experiments.training.group import Member, RunGroup
from leadline.experiments.training.loop import Trained, member_flops
from leadline.experiments.training.saving import save_weights


def record_group(group: RunGroup, trained: Sequence[Trained], programs: list[str], origin: Provenance) -> None:
    """Saves the weights of every member, measures all of them, and writes the records that are not there yet.

    Args:
        group: the members.
        trained: what became of each.
        programs: names of compiled programs, which grow.
        origin: the code and the machine.

    Raises:
        UserError: if weights or records cannot be written.
    """
    for member, end in zip(group.members, trained, strict=True):
        if end.message is None and not member.recorded:
            save_weights(member, end.steps, end.params)
    arms, params = [member.arm for member in group.members], [end.params for end in trained]
    points = final_points(Models(arms, params, group.sources[0], group.structure.model, programs))
    for member, end, point in zip(group.members, trained, points, strict=True):
        if not member.recorded:
            _record(group, member, end, end.point | point, origin)


def _record(group: RunGroup, member: Member, end: Trained, point: Point, origin: Provenance) -> None:
    if end.message is not None:  # how long the others of its program went on says nothing of it
        point = {key: np.full(np.shape(array), np.nan) for key, array in point.items()}
    arm, quantities = member.arm, quantities_of(member.arm.measure.functions)
    tokens = end.steps * arm.train.batch * arm.data.length
    record = Record(
        study=group.study,
        arm=arm.name,
        label=arm.label,
        arm_hash=member.digest,
        seed=member.seed,
        status="finished" if end.message is None else "diverged",
        message=end.message,
        config=arm.model_dump(mode="json"),
        data=member.source.described,
        steps=end.steps,
        tokens=tokens,
        seconds=end.seconds,
        flops=tokens * member_flops(group.structure.model, member),
        parameters=sum(leaf.size for leaf in jax.tree.leaves(end.params)),
        measurements=tuple(measurements_of(point, quantities)),
        created=now(),
        **origin,
    )
    write_record(member.folder, record, end.curve, point, quantities)
