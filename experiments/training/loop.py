"""The training loop of one group, and the compiled programs that it runs."""

import math
import time
from collections import deque
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from leadline.experiments.config.data import TextData
from leadline.experiments.config.position import Rope
from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.kinds.curves import curve_of
from leadline.experiments.measure.kinds.plugin import quantities_of
from leadline.experiments.records.measurement import Point
from leadline.experiments.runtime.ensemble import compiled, everywhere, of_each_device, share, stack, stack_rows, unstack
from leadline.experiments.runtime.progress import Progress
from leadline.experiments.runtime.signals import Interrupted, Interruption
from leadline.experiments.training.group import RunGroup
from leadline.experiments.training.programs import programs_of
from leadline.experiments.training.reporting import report_curves
from leadline.experiments.training.saving import History, Trained, resumed, save_group
from leadline.experiments.training.step import Values, learning_rates, values_of

# The host reads the metrics of a step once the next one is queued and never queues a third: several CPU devices in one process
# deadlock when many steps with collectives wait, and a device should not wait for the host.
IN_FLIGHT = 2
# The metrics of `train_step` of every member, and "stop": for each device, whether its process was asked to stop.
Metrics = dict[str, Array | np.ndarray]


def train_group(group: RunGroup, programs: list[str], progress: Progress, interruption: Interruption) -> Trained:
    """Trains a group to its last step, from step 0 or its last checkpoint.

    The group is saved at the end, where all members have diverged too, every `checkpoint_every` steps, and when asked to stop.
    Needs the mesh of the group. Of processes that train together each one may be asked; all of them hear of it with the metrics
    of that step.

    Raises:
        Interrupted: when asked to stop, after the step just made is saved.
        UserError: if a checkpoint cannot be written, or weights to start from cannot be used.
    """
    _, _, cfg, measure = group.structure
    quantities = quantities_of(measure.functions)
    progress.status("compiling")
    ensemble = Ensemble(group, programs)
    history = ensemble.history
    began = time.monotonic() - history.seconds
    if group.first_step == 0:
        history.add(0, ensemble.points(0), None, quantities)
        report_curves(group, history, progress)
    in_flight: deque[tuple[int, Metrics]] = deque()
    losses, stopping = np.full(len(group.members), np.nan), False
    for done in range(group.first_step + 1, cfg.steps + 1):
        if all(history.diverged):
            break
        in_flight.append((done, ensemble.step(done - 1, stop=interruption.requested)))
        measured = done % measure.every == 0 or done == cfg.steps
        stopping = stopping or (jax.process_count() == 1 and interruption.requested)  # several hear of it with the metrics
        saved = done == cfg.steps or bool(cfg.checkpoint_every and done % cfg.checkpoint_every == 0)
        while len(in_flight) >= (1 if measured or saved or stopping else IN_FLIGHT):
            step, arrays = in_flight.popleft()
            stopping = stopping or bool(np.any(arrays.pop("stop")))
            losses = note_metrics(group, step, arrays, history, progress)
        if measured:
            progress.status("measuring the curve")
            history.add(done, ensemble.points(done), losses, quantities)
            report_curves(group, history, progress)
        if saved or stopping or all(history.diverged):
            history.seconds = time.monotonic() - began
            save_group(group, done, ensemble.state, history)
        if stopping and done < cfg.steps:
            raise Interrupted(f"{group.study}: stopped at step {done} of {cfg.steps}, which is kept")
    history.seconds = time.monotonic() - began
    progress.status("measuring")
    return unstack(ensemble.state.params, len(group.members)), ensemble.points(cfg.steps), history


def note_metrics(group: RunGroup, step: int, arrays: Metrics, history: History, progress: Progress) -> np.ndarray:
    """Reads the metrics of a step, and tells of its losses and of members that diverge with it.

    Args:
        group: whose step it is.
        step: its number, from 1 on.
        arrays: what `train_step` gives of every member.
        history: of the group; it keeps who diverged.
        progress: hears of it.

    Returns:
        The loss of each member.
    """
    metrics = {name: np.asarray(array)[: len(group.members)] for name, array in arrays.items()}
    limit = group.structure.train.diverged * math.log(group.structure.model.vocabulary)
    for member, message in history.note_divergence(step, metrics, limit):
        arm, seed = group.members[member].arm.name, group.members[member].seed
        progress.note(f"{group.study}: {arm}, seed {seed}, diverged: {message}")
    progress.step(step, metrics["loss"], [diverged is not None for diverged in history.diverged])
    return metrics["loss"]


class Ensemble:
    """A group on its devices: its state, its three compiled programs and what they take besides the state.

    `programs` grows by the names of these.

    Attributes:
        state: of all members, stacked; at first that of the last checkpoint, or of step 0.
        history: curves, divergence and seconds up to that first state.

    Raises:
        UserError: if weights to start from cannot be used.
    """

    def __init__(self, group: RunGroup, programs: list[str]) -> None:
        mesh, functions = group.mesh, programs_of(group)
        self._group, self._phases = group, _phases(group)
        self._rates = np.stack([learning_rates(member.arm.train) for member in group.members])
        self._held_out, self._shared = share(group.held_out, mesh), share(group.sources[0].shared, mesh)
        seeds, first = stack([np.uint32(member.seed) for member in group.members], mesh), self._values(0)
        begin = compiled("initialise", functions.initialise, programs, seeds, first, None)
        self.state, self.history = resumed(group, begin(seeds, first, None))
        inputs, texts = self._inputs(0), (self._held_out, self._shared)
        self._step = compiled("train", functions.step, programs, self.state, inputs, self._shared)
        self._point = compiled("measure", functions.point, programs, self.state.params, first, texts)

    def step(self, step: int, *, stop: bool = False) -> Metrics:
        """Makes a training step.

        Args:
            step: its number, from 0 on.
            stop: whether this process is asked to stop.

        Returns:
            The metrics of `train_step` of every member, and "stop", whether each device's process is asked to, once the step is
            made.
        """
        self.state, metrics = self._step(self.state, self._inputs(step), self._shared)
        return everywhere(metrics | {"stop": of_each_device(stop, self._group.mesh)}, self._group.mesh)

    def points(self, step: int) -> list[Point]:
        """A point of the curve of every member after that many steps."""
        statistics = self._point(self.state.params, self._values(step), (self._held_out, self._shared))
        return unstack(statistics, len(self._group.members))

    def _inputs(self, step: int) -> tuple[Any, Values, Array]:
        """What a step takes of each member: its inputs, its values, its learning rate.

        The data of an arm that starts from another one go on where that one's stopped.
        """
        rates = stack(list(self._rates[:, step]), self._group.mesh)
        return self._drawn(step), self._values(step), rates

    def _drawn(self, step: int) -> Any:
        """The inputs of the members' sources; of text each process reads the rows of its devices."""
        group, batch = self._group, self._group.structure.train.batch

        def of_member(number: int, *rows: slice) -> Any:
            member = group.members[number]
            before = 0 if member.arm.start is None else member.arm.start.steps
            return member.source.inputs(member.seed, before + step, batch, *rows)

        members, data = len(group.members), group.structure.data
        if isinstance(data, TextData):
            return stack_rows(of_member, members, (batch, data.length + 1), group.mesh)
        return stack(list(map(of_member, range(members))), group.mesh)

    def _values(self, step: int) -> Values:
        return next(values for start, values in self._phases if start <= step)


def _phases(group: RunGroup) -> list[tuple[int, Values]]:
    """The members' values from step 0 on, and from each step at which one of them drops its positions; the last phase first."""
    steps = group.structure.train.steps
    positions = [position for member in group.members for position in member.arm.model.positions]
    drops = {
        math.ceil(position.drop_after * steps)
        for position in positions
        if isinstance(position, Rope) and position.drop_after is not None
    }
    phases, sources = [], [id(source) for source in group.sources]
    for step in sorted({0} | drops, reverse=True):
        values = []
        for member in group.members:
            arm = member.arm
            lengths = curve_of(arm.data).lengths(arm)
            rows = {tokens: tables(arm.model, arm.original_length, tokens, trained=step / steps) for tokens in lengths}
            text = sources.index(id(member.source))
            values.append(values_of(arm.model, arm.train, rows[arm.data.length], text, rows))
        phases.append((step, stack(values, group.mesh)))
    return phases
