"""What a run keeps of each model: its last weights and its record.

The weights lie in `checkpoint` beside the record: texts are generated from them, and other arms start from them.
"""

from collections.abc import Callable, Mapping
from functools import partial

import jax
import numpy as np

from leadline.experiments.measure.evaluate import Models
from leadline.experiments.measure.kinds.plugin import quantities_of
from leadline.experiments.measure.kinds.registry import final_points
from leadline.experiments.records.left_out import left_out_of
from leadline.experiments.records.measurement import Point, measurements_of
from leadline.experiments.records.provenance import Provenance, now
from leadline.experiments.records.quantities import Quantity
from leadline.experiments.records.record import Record, Worked
from leadline.experiments.records.store import write_record
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.hosts import leads
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interrupted, Interruption
from leadline.experiments.training import checkpoint
from leadline.experiments.training.group import Member, RunGroup
from leadline.experiments.training.saving import Trained
from leadline.model.decoder import Decoder
from leadline.tokenization.formats.saving import save as save_tokenizer


def save_weights(member: Member, step: int, params: Decoder, check: Callable[[], None]) -> None:
    """The last weights of a member, with its tokenizer; `check` is that of `checkpoint.save`.

    Raises:
        UserError: when the disk refuses.
    """
    checkpoint.save(member.checkpoints, step, params, {"tokenizer": member.tokenizer_digest}, check)
    if member.source.tokenizer is not None:
        check()
        try:
            save_tokenizer(member.source.tokenizer, member.checkpoints / "tokenizer")
        except OSError as error:
            check()  # whoever has taken over writes the same files
            raise UserError(f"{member.checkpoints}: cannot write the tokenizer ({error.strerror}); free the disk") from error


def record_group(
    group: RunGroup,
    trained: Trained,
    programs: list[str],
    origin: Provenance,
    progress: Progress,
    interruption: Interruption,
) -> None:
    """Saves the weights of every member, measures all of them, and writes the records that are not there yet.

    Of processes that run together all measure, and the first one writes.

    `programs` grows by the names of what is compiled.

    Raises:
        Interrupted: when this process is alone and asked to stop, between two measurements.
        UserError: if weights or records cannot be written.
        Lost: if another process has taken over.
    """
    (params, points, history), (model, _, train, measure) = trained, group.structure
    ends = [diverged or (train.steps, None) for diverged in history.diverged]
    if leads():
        for member, weights, (steps, message) in zip(group.members, params, ends, strict=True):
            if message is None and not member.recorded:
                save_weights(member, steps, weights, group.check_claim)
    seeds = [member.seed for member in group.members if member.predecessor is None]

    def tell(done: int, total: int) -> None:
        progress.status(f"measuring {programs[-1]}, {done} of {total}")
        if interruption.requested and jax.process_count() == 1:  # several would not stop at the same one
            raise Interrupted(f"{group.study}: stopped while measuring; the last step is kept")

    models = Models([member.arm for member in group.members], params, group.sources[0], model, programs, tell, seeds)
    quantities = quantities_of(measure.functions)
    finals = final_points(models)
    for i, final in enumerate(finals if leads() else ()):
        member, (steps, message) = group.members[i], ends[i]
        if member.recorded:
            continue
        point = points[i] | final
        if message is not None:  # how long the others of its program went on says nothing of it
            point = {key: np.full(np.shape(array), np.nan) for key, array in point.items()}
        record = _record(group, i, trained, point, quantities, origin)
        # The curve of one that diverged ends there, whatever its neighbours did.
        checkpoint.tidy(member.checkpoints)  # of a process that stood still while it saved
        check = partial(_check_recordable, group, member, None if message else steps)
        write_record(member.folder, record, history.curves[i].until(steps), point, quantities, check)


def _record(
    group: RunGroup, number: int, trained: Trained, point: Point, quantities: Mapping[str, Quantity], origin: Provenance
) -> Record:
    """The record of one member of a group, with the final numbers `point`."""
    (params, _, history), (model, _, train, _) = trained, group.structure
    member = group.members[number]
    arm, (steps, message) = member.arm, history.diverged[number] or (train.steps, None)
    tokens = steps * train.batch * arm.data.length
    return Record(
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
        parameters=sum(leaf.size for leaf in jax.tree.leaves(params[number])) - arm.model.untrained_logits,
        measurements=tuple(measurements_of(point, quantities)),
        left_out=left_out_of(point, quantities),
        created=now(),
        workers=tuple(Worked.model_validate(worker) for worker in history.workers),
        **origin,
    )


def _check_recordable(group: RunGroup, member: Member, step: int | None) -> None:
    """Lost if another process has taken over, FileNotFoundError if the weights of a step were removed meanwhile."""
    group.check_claim()
    if step is not None:
        checkpoint.extra_of(member.checkpoints, step)
