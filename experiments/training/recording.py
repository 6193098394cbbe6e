"""From trained models to records."""

import jax
import numpy as np

from leadline.experiments.measure.kinds.kind import Models
from leadline.experiments.measure.kinds.registry import final_points, quantities_of
from leadline.experiments.records.curve import until
from leadline.experiments.records.measurement import measurements_of
from leadline.experiments.records.provenance import Provenance, now
from leadline.experiments.records.record import Record
from leadline.experiments.records.store import write_record
from leadline.experiments.training.group import RunGroup
from leadline.experiments.training.loop import Trained
from leadline.experiments.training.saving import save_weights


def record_group(group: RunGroup, trained: Trained, programs: list[str], origin: Provenance) -> None:
    """Saves the weights of every member, measures all of them, and writes the records that are not there yet.

    Args:
        group: the members.
        trained: what became of them.
        programs: names of compiled programs, which grow.
        origin: the code and the machine.

    Raises:
        UserError: if weights or records cannot be written.
    """
    (model, _, train, measure), history = group.structure, trained.history
    ends = [diverged or (train.steps, None) for diverged in history.diverged]
    for member, params, (steps, message) in zip(group.members, trained.params, ends, strict=True):
        if message is None and not member.recorded:
            save_weights(member, steps, params)
    models = Models([member.arm for member in group.members], trained.params, group.sources[0], model, programs)
    quantities = quantities_of(measure.functions)
    for i, final in enumerate(final_points(models)):
        member, (steps, message) = group.members[i], ends[i]
        if member.recorded:
            continue
        arm, point = member.arm, trained.points[i] | final
        if message is not None:  # how long the others of its program went on says nothing of it
            point = {key: np.full(np.shape(array), np.nan) for key, array in point.items()}
        tokens = steps * train.batch * arm.data.length
        record = Record(
            study=group.study,
            arm=arm.name,
            label=arm.label,
            arm_hash=member.digest,
            seed=member.seed,
            status="finished" if message is None else "diverged",
            message=message,
            config=arm.model_dump(mode="json"),
            data=member.source.described,
            steps=steps,
            tokens=tokens,
            seconds=history.seconds / len(group.members),
            flops=tokens * member.flops(model),
            parameters=sum(leaf.size for leaf in jax.tree.leaves(trained.params[i])),
            measurements=tuple(measurements_of(point, quantities)),
            created=now(),
            **origin,
        )
        # The curve of one that diverged ends there, whatever its neighbours did.
        write_record(member.folder, record, until(history.curves[i], steps), point, quantities)
