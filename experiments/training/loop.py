"""The training loop of one group."""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Array

from leadline.experiments.config.to_model import training_flops
from leadline.experiments.measure.kinds.registry import quantities_of
from leadline.experiments.records.curve import until
from leadline.experiments.records.measurement import Point
from leadline.experiments.records.record import Curve
from leadline.experiments.runtime.ensemble import unstack
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interrupted, Interruption
from leadline.experiments.training.group import Member, RunGroup
from leadline.experiments.training.history import History
from leadline.experiments.training.programs import Ensemble, prepare
from leadline.experiments.training.saving import save_group
from leadline.experiments.training.step import TrainState
from leadline.model.decoder import Decoder, DecoderConfig

# The host reads the metrics of a step once the next one is queued and never queues a third: several CPU devices in one process
# deadlock when many steps with collectives wait, and a device should not wait for the host.
IN_FLIGHT = 2


@dataclass(frozen=True)
class Trained:
    """A member at the end of its training: at its last step, or where it diverged.

    Attributes:
        params: the weights, on the host.
        point: the last point of the curve, by layer and head.
        curve: up to the end.
        steps: that it was trained for.
        message: how it diverged, None if it did not.
        seconds: its share of the time that its group took.
    """

    params: Decoder
    point: Point
    curve: Curve
    steps: int
    message: str | None
    seconds: float


def train_group(group: RunGroup, programs: list[str], progress: Progress, interruption: Interruption) -> list[Trained]:
    """Trains a group to its last step, from step 0 or its last checkpoint.

    The group is saved at the end, every `checkpoint_every` steps, and when asked to stop.

    Raises:
        Interrupted: when asked to stop, after the step just made is saved.
        UserError: if a checkpoint cannot be written, or weights to start from cannot be used.
    """
    cfg, every = group.structure.train, group.structure.measure.every
    ensemble, state, history = prepare(group, programs)
    quantities = quantities_of(group.structure.measure.functions)
    report = _reporter(group, progress)
    first = 0 if group.unfinished is None else group.unfinished.step
    began = time.monotonic() - history.seconds
    if first == 0:
        history.add(0, ensemble.points(state, 0), None, quantities)
    in_flight: deque[tuple[int, dict[str, Array]]] = deque()
    losses = np.full(len(group.members), np.nan)
    for done in range(first + 1, cfg.steps + 1):
        state, metrics = ensemble.step(state, done - 1)
        in_flight.append((done, metrics))
        measured = done % every == 0 or done == cfg.steps
        stopping = interruption.requested
        saved = stopping or done == cfg.steps or bool(cfg.checkpoint_every and done % cfg.checkpoint_every == 0)
        while len(in_flight) >= (1 if measured or saved else IN_FLIGHT):
            step, metrics = in_flight.popleft()
            losses = np.asarray(metrics["loss"])[: len(group.members)]
            history.note_divergence(step, losses, cfg.diverged * math.log(group.structure.model.vocabulary))
            report(step, losses)
        if measured:
            history.add(done, ensemble.points(state, done), losses, quantities)
        if saved:
            history.seconds = time.monotonic() - began
            save_group(group, done, state, history)
        if stopping and done < cfg.steps:
            raise Interrupted(f"{group.study}: stopped at step {done} of {cfg.steps}, which is kept")
        if all(history.diverged):
            break
    history.seconds = time.monotonic() - began
    return _trained(ensemble, state, history)


def _trained(ensemble: Ensemble, state: TrainState, history: History) -> list[Trained]:
    """What became of every member; the curve of one that diverged ends there, whatever its neighbours did."""
    group, steps = ensemble.group, ensemble.group.structure.train.steps
    points, params = ensemble.points(state, steps), unstack(state.params, len(group.members))
    trained = []
    for i, diverged in enumerate(history.diverged):
        end, message = diverged or (steps, None)
        seconds = history.seconds / len(group.members)
        trained.append(Trained(params[i], points[i], until(history.curves[i], end), end, message, seconds))
    return trained


def member_flops(model: DecoderConfig, member: Member) -> float:
    """FLOPs of one token of a member, forward and backward."""
    arm = member.arm
    return training_flops(model, arm.data.length, arm.model.window, arm.model.initial_tokens)


def _reporter(group: RunGroup, progress: Progress) -> Callable[[int, np.ndarray], None]:
    model, data, train = group.structure.model, group.structure.data, group.structure.train
    flops = float(np.mean([member_flops(model, member) for member in group.members]))
    tokens = len(group.members) * train.batch * data.length
    return lambda done, losses: progress.step(done, losses, tokens, flops, model.compute)
