"""The arithmetic of attention, exactly: a job for each subject, computed by the functions that models run."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from leadline.experiments.config.base import Frozen
from leadline.experiments.config.exact import AttentionArithmetic
from leadline.experiments.measure.exact import attention_order, attention_scores, attention_size
from leadline.experiments.measure.exact.job import Job, jobs_of_subjects
from leadline.experiments.records.measurement import Reading, reading

Numbers = dict[Reading, int | float]


class ScoreSettings(Frozen):
    """Settings of the variances of q·k."""

    kind: Literal["scores"] = "scores"
    head_dims: tuple[int, ...]
    divisors: tuple[int, ...]


class SaturationSettings(Frozen):
    """Settings of the saturation of softmax."""

    kind: Literal["saturation"] = "saturation"
    head_dims: tuple[int, ...]
    keys: int
    draws: int


class RepeatedSettings(Frozen):
    """Settings of attention over one repeated token."""

    kind: Literal["repeated"] = "repeated"
    tokens: int
    head_dim: int
    base: float


class OrderSettings(Frozen):
    """Settings of the order of tokens that attention knows."""

    kind: Literal["order"] = "order"
    permuted: int
    tokens: int
    base: float


class RotationSettings(Frozen):
    """Settings of scores and norms under RoPE."""

    kind: Literal["rotation"] = "rotation"
    head_dim: int
    base: float
    shifts: tuple[int, ...]


class WindowSettings(Frozen):
    """Settings of the reach of windowed attention."""

    kind: Literal["windows"] = "windows"
    windows: tuple[tuple[int, int], ...]


class BiasSettings(Frozen):
    """Settings of softmax with a sink logit."""

    kind: Literal["softmax_bias"] = "softmax_bias"
    keys: int


class HeadSettings(Frozen):
    """Settings of the size of attention by its heads."""

    kind: Literal["heads"] = "heads"
    width: int
    heads: tuple[int, ...]
    tokens: int


def jobs(exact: AttentionArithmetic) -> list[Job]:
    """A job for each subject."""
    rope = {"head_dim": exact.head_dim, "base": exact.base}
    drawn = SaturationSettings(head_dims=exact.head_dims, keys=exact.keys, draws=exact.draws)
    return jobs_of_subjects(
        (
            ("variance of scores", ScoreSettings(head_dims=exact.enumerated, divisors=exact.divisors), scores),
            ("saturation of softmax", drawn, saturation),
            ("one repeated token", RepeatedSettings(tokens=exact.repeated, **rope), repeated),
            ("order of tokens", OrderSettings(permuted=exact.permuted, tokens=exact.repeated, base=exact.base), order),
            ("rotation", RotationSettings(shifts=exact.shifts, **rope), rotation),
            ("windows", WindowSettings(windows=exact.windows), windows),
            ("sink logit of softmax", BiasSettings(keys=exact.keys), softmax_bias),
            ("heads", HeadSettings(width=exact.width, heads=exact.heads, tokens=exact.context), heads),
        )
    )


def _at(numbers: Mapping[str, int | float], **dims: int | str) -> Numbers:
    """Numbers by quantity at these dimensions."""
    return {reading(name, **dims): number for name, number in numbers.items()}


def scores(settings: ScoreSettings) -> Numbers:
    """`score_variance` by `head_dim` and `scale`."""
    others = {f"1/sqrt({divisor})": divisor**-0.5 for divisor in settings.divisors}
    return {
        reading("score_variance", head_dim=d, scale=name): attention_scores.score_variance(d, scale)
        for d in settings.head_dims
        for name, scale in (attention_scores.scales(d) | others).items()
    }


def saturation(settings: SaturationSettings) -> Numbers:
    """The largest weight, the spread and the Jacobian of softmax by `head_dim` and `scale`, each `of` the draws."""
    point: Numbers = {}
    for d in settings.head_dims:
        for name, p in attention_scores.weights_of_draws(settings.draws, settings.keys, d).items():
            numbers = {
                "largest_probability": p.max(axis=-1),
                "effective_keys": attention_scores.effective_keys(p),
                "jacobian_norm": attention_scores.jacobian_norms(p),
            }
            for of, summary in (("median", np.median), ("mean", np.mean)):
                point |= _at({key: float(summary(value)) for key, value in numbers.items()}, head_dim=d, scale=name, of=of)
    return point


def repeated(settings: RepeatedSettings) -> Numbers:
    """`relative_weight` of the first token by `positions`, and how far weights without positions are from uniform."""
    tokens, head_dim = settings.tokens, settings.head_dim
    ways = attention_order.repeated_token(tokens, head_dim, settings.base)
    point = {reading("relative_weight", positions=name): attention_order.relative_weight(a) for name, a in ways.items()}
    return point | {reading("largest_difference", positions="none"): attention_order.away_from_uniform(ways["none"])}


def order(settings: OrderSettings) -> Numbers:
    """How far attention is from equivariance by `mask` and `positions`, and the error of positions that it recovers."""
    point: Numbers = {}
    for mask, positions in (("none", "none"), ("causal", "none"), ("none", "rope")):
        base = settings.base if positions == "rope" else None
        difference = attention_order.away_from_equivariance(settings.permuted, causal=mask == "causal", base=base)
        point[reading("largest_difference", mask=mask, positions=positions)] = difference
    point[reading("position_error", mask="causal", positions="none")] = attention_order.position_error(settings.tokens)
    return point


def rotation(settings: RotationSettings) -> Numbers:
    """Changes of scores by `shift`, and of norms, and how far scores of ones are from sums of cosines."""
    head_dim, base = settings.head_dim, settings.base
    point = {
        reading("largest_difference", case="both positions moved", shift=shift): attention_order.moved(head_dim, base, shift)
        for shift in settings.shifts
    }
    others = {"norms": attention_order.norm_change, "sum of cosines": attention_order.away_from_cosines}
    return point | {reading("largest_difference", case=name): compute(head_dim, base) for name, compute in others.items()}


def windows(settings: WindowSettings) -> Numbers:
    """`attention_span` by `window` and `layers`."""
    return {
        reading("attention_span", window=window, layers=layers): attention_size.span(window, layers)
        for window, layers in settings.windows
    }


def softmax_bias(settings: BiasSettings) -> Numbers:
    """`total_weight` by `normalizer` and `logit`, and what shifts and additional keys change."""
    point: Numbers = {}
    shifted = f"{attention_scores.SHIFT:g} added to every logit"
    for normalizer, sink_logit in attention_scores.SINK_LOGITS.items():
        for logit in attention_scores.LOGITS:
            weights = attention_scores.weights_of([logit] * settings.keys, sink_logit)
            point[reading("total_weight", normalizer=normalizer, logit=logit)] = float(weights.sum())
        change = attention_scores.changed_by_shift(settings.keys, sink_logit)
        point[reading("largest_difference", normalizer=normalizer, case=shifted)] = change
    for case, difference in attention_scores.prepended(settings.keys).items():
        point[reading("largest_difference", case=case)] = difference
    return point


def heads(settings: HeadSettings) -> Numbers:
    """Weights, FLOPs and bytes by `heads`."""
    point: Numbers = {}
    for count in settings.heads:
        point |= _at(attention_size.sizes(settings.width, count, settings.tokens), heads=count)
    return point
