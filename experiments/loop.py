"""The training loop of one group: members of equal structure at the same step, in one program."""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from experiments import checkpoint
from experiments.build import extra_logit, training_flops
from experiments.config.position import Rope
from experiments.errors import UserError
from experiments.evaluate import Statistics
from experiments.group import Group, Measurer, Member, Point
from experiments.interrupt import Interrupted, Interruption
from experiments.measure.layers import as_number
from experiments.population import compiled, over_arms, share, stack, unstack
from experiments.position_tables import tables
from experiments.progress import Progress
from experiments.train import TrainState, Values, init_state, learning_rates, train_step
from model.decoder import Decoder
from tokenization.saving import save as save_tokenizer

# The host reads the metrics of a step once the next one is queued and never queues a third: several CPU devices in one process
# deadlock when many steps with collectives wait, and a device should not wait for the host.
IN_FLIGHT = 2


@dataclass(frozen=True)
class Population:
    """A group on its devices: the compiled programs and what they take besides the state."""

    group: Group
    phases: tuple[tuple[int, Values], ...]  # the step from which on they hold, ascending
    rates: np.ndarray  # learning rates [A, steps]
    batches: Any
    shared: Any
    step_program: Callable[..., tuple[TrainState, dict[str, Array]]]
    point_program: Callable[..., Statistics]

    def step(self, state: TrainState, step: int) -> tuple[TrainState, dict[str, Array]]:
        return self.step_program(state, _own(self.group, self.values_at(step), self.rates, step), self.shared)

    def point(self, state: TrainState, step: int) -> list[Point]:
        found = self.point_program(state.params, self.values_at(step), (self.batches, self.shared))
        return unstack(found, len(self.group.members))

    def values_at(self, step: int) -> Values:
        """What distinguishes the members at a step: positions may be dropped on the way."""
        return next(values for start, values in reversed(self.phases) if start <= step)


@dataclass
class Behind:
    """What the members have behind them, one entry a member."""

    curves: list[list[dict[str, Any]]]
    diverged: list[tuple[int, str] | None]  # at which step, and how
    seconds: float


@dataclass(frozen=True)
class Trained:
    """A member at the end of its training, at its last step or where it diverged; `message` says how, None if it did not."""

    params: Decoder
    point: Point
    curve: list[dict[str, Any]]
    steps: int
    message: str | None
    seconds: float


def train_group(
    group: Group, measurer: Measurer, programs: list[str], progress: Progress, interruption: Interruption
) -> list[Trained]:
    """Trains from the common start to the end, with a checkpoint at the end and every `checkpoint_every` steps.

    Interrupted is raised when asked to stop, after the checkpoints of the step just made.
    """
    cfg, start, count = group.arm.train, group.members[0].start, len(group.members)
    population, state, behind = _prepare(group, measurer, programs)
    report = _reporter(group, progress)
    began, earlier = time.monotonic(), behind.seconds
    if start == 0:
        _add_points(behind, 0, population.point(state, 0), None)
    in_flight: deque[tuple[int, dict[str, Array]]] = deque()
    for done in range(start + 1, cfg.steps + 1):
        state, metrics = population.step(state, done - 1)
        in_flight.append((done, metrics))
        measured = done % group.arm.measure.every == 0 or done == cfg.steps
        kept = done == cfg.steps or bool(cfg.checkpoint_every and done % cfg.checkpoint_every == 0)
        stopping = interruption.requested
        losses = np.full(count, np.nan)
        while len(in_flight) >= (1 if measured or kept or stopping else IN_FLIGHT):
            at, found = in_flight.popleft()
            losses = np.asarray(found["loss"])[:count]
            _note_divergence(behind, group, losses, at)
            report(at, losses)
        if measured:
            _add_points(behind, done, population.point(state, done), losses)
        if kept or stopping:
            behind.seconds = earlier + time.monotonic() - began
            _save(group, behind, done, unstack(state, count))
        if stopping and done < cfg.steps:
            raise Interrupted(f"{group.study}: stopped at step {done} of {cfg.steps}, which is kept")
        if all(behind.diverged):
            break
    behind.seconds = earlier + time.monotonic() - began
    return _trained(population, state, behind)


def _trained(population: Population, state: TrainState, behind: Behind) -> list[Trained]:
    """What became of every member; the curve of one that diverged ends there, whatever its neighbours did."""
    group, trained = population.group, []
    points, params = population.point(state, group.arm.train.steps), unstack(state.params, len(group.members))
    for own, point, curve, diverged in zip(params, points, behind.curves, behind.diverged, strict=True):
        steps, message = diverged or (group.arm.train.steps, None)
        until = [row for row in curve if row["step"] <= steps]
        trained.append(Trained(own, point, until, steps, message, behind.seconds))
    return trained


def _prepare(group: Group, measurer: Measurer, programs: list[str]) -> tuple[Population, TrainState, Behind]:
    """Compiles the three programs of a group and restores its members where they have a checkpoint."""
    arm, mesh, members = group.arm, group.mesh, group.members
    phases = _phases(group)
    values = phases[0][1]
    seeds = stack([np.uint32(member.seed) for member in members], mesh)
    rates = np.stack([learning_rates(member.arm.train) for member in members])
    batches, shared = share(group.held_out, mesh), share(group.source.shared, mesh)

    def initialise(seed: Array, own: Values, shared: None) -> TrainState:  # noqa: ARG001
        return init_state(seed, own, group.model, arm.train)

    def step(state: TrainState, own: tuple[Any, Values, Array], shared: Any) -> tuple[TrainState, dict[str, Array]]:
        sample = group.source.sample(own[0], shared, arm.train.batch)
        return train_step(state, sample, own[1], own[2], group.model, arm.train)

    def point(params: Decoder, own: Values, shared: tuple[Any, Any]) -> Statistics:
        texts, task = shared
        held_out = jax.tree.map(lambda leaf: leaf[own.text], texts)
        return measurer.point(params, own.tables, held_out, task, group.model, arm.measure)

    init = compiled("initialise", over_arms(initialise), programs, seeds, values, None)
    state, behind = _resume(group, init(seeds, values, None))
    own = _own(group, values, rates, min(members[0].start, arm.train.steps - 1))
    population = Population(
        group=group,
        phases=phases,
        rates=rates,
        batches=batches,
        shared=shared,
        step_program=compiled("train", over_arms(step, donate=True), programs, state, own, shared),
        point_program=compiled("measure", over_arms(point), programs, state.params, values, (batches, shared)),
    )
    return population, state, behind


def _phases(group: Group) -> tuple[tuple[int, Values], ...]:
    """The members' values from the beginning, and anew from each step at which one of them drops its positions."""
    steps = group.arm.train.steps
    positions = [member.arm.model.position for member in group.members]
    drops = {math.ceil(p.drop_after * steps) for p in positions if isinstance(p, Rope) and p.drop_after is not None}
    return tuple(
        (step, stack([_values(group, member, step / steps) for member in group.members], group.mesh))
        for step in sorted({0} | drops)
    )


def _values(group: Group, member: Member, trained: float) -> Values:
    arm = member.arm
    logit, rate = extra_logit(arm.model)
    return Values(
        tables=tables(arm.model, arm.original_length, arm.data.length, trained=trained),
        extra_logit=jnp.float32(logit),
        text=jnp.int32(group.source_of(member)),
        logit_rate=jnp.float32(rate),
        weight_decay=jnp.float32(arm.train.weight_decay),
        clip=jnp.float32(arm.train.clip),
    )


def _own(group: Group, values: Values, rates: np.ndarray, step: int) -> tuple[Any, Values, Array]:
    """What a step takes for each member: its inputs, its values, its learning rate."""
    batch = group.arm.train.batch
    earlier = [0 if member.arm.start is None else member.arm.start.steps for member in group.members]
    drawn = zip(group.members, earlier, strict=True)
    inputs = stack([member.source.inputs(member.seed, before + step, batch) for member, before in drawn], group.mesh)
    return inputs, values, stack(list(rates[:, step]), group.mesh)


def _resume(group: Group, state: TrainState) -> tuple[TrainState, Behind]:
    """The members' last checkpoints in place of their first state; all members of a group stand at the same step."""
    members = group.members
    if members[0].start == 0:
        return _begun(group, state), Behind([[] for _ in members], [None] * len(members), 0.0)
    template = unstack(state, 1)[0]
    restored = [_restore(member.checkpoints, member.start, template, member) for member in members]
    behind = Behind(
        curves=[extra["curve"] for _, extra in restored],
        diverged=[None] * len(members),
        seconds=max(extra["seconds"] for _, extra in restored),
    )
    return stack([tree for tree, _ in restored], group.mesh), behind


def _begun(group: Group, state: TrainState) -> TrainState:
    """The state at step 0: fresh, or with the last weights of another arm. The optimiser begins anew in either case."""
    fresh = unstack(state, len(group.members))
    first = []
    for member, own in zip(group.members, fresh, strict=True):
        if member.before is not None:
            trained, _ = _restore(member.before.checkpoints, member.before.steps, own, member)
            own = own.replace(params=trained.params)
        first.append(own)
    return state if all(member.before is None for member in group.members) else stack(first, group.mesh)


def _restore(folder: Path, step: int, template: TrainState, member: Member) -> tuple[TrainState, dict[str, Any]]:
    """A checkpoint and what was kept with it. UserError where its weights were trained with another tokenizer."""
    state, extra = checkpoint.restore(folder, step, template)
    tokenizer = member.source.tokenizer
    if tokenizer is not None and extra.get("tokenizer", tokenizer.digest()) != tokenizer.digest():
        raise UserError(
            f"{folder}: these weights were trained with another tokenizer than {member.arm.name!r} has, whose ids mean other "
            "text; give it that one's data.tokenizer and corpus"
        )
    return state, extra


def _save(group: Group, behind: Behind, done: int, states: Sequence[TrainState]) -> None:
    """A checkpoint of every member that did not diverge: what is not finite never replaces what is."""
    for member, state, curve, diverged in zip(group.members, states, behind.curves, behind.diverged, strict=True):
        if diverged is None:
            tokenizer = member.source.tokenizer
            digest = None if tokenizer is None else tokenizer.digest()
            extra = {"curve": curve, "seconds": behind.seconds, "tokenizer": digest}
            checkpoint.save(member.checkpoints, done, state, extra)
            if tokenizer is not None:
                save_tokenizer(tokenizer, member.checkpoints / "tokenizer")


def _add_points(behind: Behind, step: int, points: Sequence[Point], losses: np.ndarray | None) -> None:
    for i, (curve, point) in enumerate(zip(behind.curves, points, strict=True)):
        numbers = {name: as_number(name, found) for name, found in point.items()}
        train_loss = None if losses is None else float(losses[i])
        row = {"step": step, "train_loss": train_loss, **numbers}
        curve.append({key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in row.items()})


def _note_divergence(behind: Behind, group: Group, losses: np.ndarray, step: int) -> None:
    limit = group.arm.train.diverged * math.log(group.model.vocabulary)
    for i, loss in enumerate(losses):
        if behind.diverged[i] is None and not loss <= limit:  # also true of NaN
            message = f"the loss was {loss:g} at step {step}; it counts as diverged above {limit:.2f} nats"
            behind.diverged[i] = (step, message)


def _reporter(group: Group, progress: Progress) -> Callable[[int, np.ndarray], None]:
    arm, count = group.arm, len(group.members)
    names = ", ".join(dict.fromkeys(member.arm.name for member in group.members))
    progress.start(
        f"{group.study}: {names} x {len({member.seed for member in group.members})}",
        arm.train.steps,
        group.members[0].start,
    )
    flops = training_flops(group.model, arm.data.length, arm.model.window, arm.model.kept)
    tokens = count * arm.train.batch * arm.data.length
    return lambda done, losses: progress.step(done, losses, tokens, flops)
