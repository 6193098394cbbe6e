"""What a run would do, without doing it: arms, parameters, tokens, FLOPs, and the programs that they share."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from experiments.arms import structure
from experiments.build import training_flops
from experiments.config.study import Arm, ExactStudy, MultilingualStudy, PrecisionStudy, RopeBaseStudy, TokensStudy
from experiments.data.source import vocabulary_size
from experiments.measure.phase import ARITHMETICS
from experiments.studies import multilingual, rope_base_run
from experiments.studies.run import Study
from model.decoder import DecoderConfig, init_decoder
from model.mesh import make_mesh


def described(plan: Sequence[tuple[Study, Sequence[Arm]]]) -> list[dict[str, Any]]:
    """One row an arm. `program` numbers the structures: arms of one number are trained by one program, those with a `start`
    once the arm that they go on from has been."""
    rows = []
    for study, arms in plan:
        if isinstance(study, ExactStudy):
            rows += [_row(study.study, name, None, 1, 0, 0, 0.0, None) for name in _exact_arms(study)]
            continue
        structures = list(dict.fromkeys(structure(arm, vocabulary_size(arm.data)) for arm in arms))
        for arm in arms:
            own = structure(arm, vocabulary_size(arm.data))
            model, seeds = own[0], len(study.seeds)
            tokens = seeds * arm.train.steps * arm.train.batch * arm.data.length
            flops = tokens * training_flops(model, arm.data.length, arm.model.window, arm.model.kept)
            first = None if arm.start is None else arm.start.arm
            rows.append(_row(study.study, arm.name, first, seeds, parameters(model), tokens, flops, structures.index(own) + 1))
    return rows


def _exact_arms(study: ExactStudy) -> list[str]:
    match study:
        case RopeBaseStudy():
            return [arm.name for arm in rope_base_run.arms_of(study)]
        case PrecisionStudy():
            return list(ARITHMETICS)
        case TokensStudy():
            return list(study.tokenizers)
        case MultilingualStudy():
            return [multilingual.arm_name(arm.exponent, arm.vocabulary) for arm in multilingual.arms_of(study)]


def parameters(model: DecoderConfig) -> int:
    """Weights of a decoder, counted without making any."""
    with jax.set_mesh(make_mesh()):
        shapes = jax.eval_shape(lambda: jax.tree.leaves(init_decoder(jax.random.key(0), model, extra_logit=jnp.float32(0))))
    return sum(leaf.size for leaf in shapes)


def _row(
    study: str,
    arm: str,
    start: str | None,
    seeds: int,
    parameters: int,
    tokens: int,
    flops: float,
    program: int | None,
) -> dict[str, Any]:
    return {
        "study": study,
        "arm": arm,
        "start": start,
        "seeds": seeds,
        "parameters": parameters,
        "tokens": tokens,
        "flops": flops,
        "program": program,
    }
