"""What a run would do, without doing it: arms, parameters, tokens, FLOPs, and the programs that they share."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from leadline.experiments.config.study import Arm, Study
from leadline.experiments.config.to_model import training_flops
from leadline.experiments.data.source import vocabulary_size
from leadline.experiments.measure.exact.registry import jobs_of
from leadline.experiments.studies.run import Plan
from leadline.experiments.training.plan import structure
from leadline.model.decoder import DecoderConfig, init_decoder
from leadline.model.mesh import make_mesh

Row = dict[str, Any]
COLUMNS = ("study", "arm", "start", "seeds", "parameters", "tokens", "flops", "program")


def described(plan: Plan) -> list[Row]:
    """One row an arm of every study.

    `program` numbers the structures: arms of one number are trained by one program, those with a `start` once the arm that they
    go on from has been.
    """
    return [row for study, arms in plan for row in (_trained(study, arms) if study.exact is None else _exact(study))]


def _trained(study: Study, arms: Sequence[Arm]) -> list[Row]:
    structures = [structure(arm, vocabulary_size(arm.data)) for arm in arms]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(structures), start=1)}
    rows = []
    for arm, key in zip(arms, structures, strict=True):
        model, seeds = key[0], len(study.seeds)
        tokens = seeds * arm.train.steps * arm.train.batch * arm.data.length
        flops = tokens * training_flops(model, arm.data.length, arm.model.window, arm.model.initial_tokens)
        start = "" if arm.start is None else arm.start.arm
        rows.append(_row(study.study, arm.name, start, seeds, parameters(model), tokens, flops, numbers[key]))
    return rows


def _exact(study: Study) -> list[Row]:
    names = [job.name for job in jobs_of(study.exact)] if study.exact is not None else []
    return [_row(study.study, name, "", 1, 0, 0, 0.0, 0) for name in names]


def parameters(model: DecoderConfig) -> int:
    """Weights of a decoder, counted without making any."""
    with jax.set_mesh(make_mesh()):
        shapes = jax.eval_shape(lambda: jax.tree.leaves(init_decoder(jax.random.key(0), model, sink_logit=jnp.float32(0))))
    return sum(leaf.size for leaf in shapes)


def _row(*values: str | int | float) -> Row:
    return dict(zip(COLUMNS, values, strict=True))
