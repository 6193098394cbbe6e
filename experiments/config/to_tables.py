"""The tables that a configured position encoding gives to a model."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from leadline.experiments.config.model import Clipped, Gate, ModelConfig, Sigmoid
from leadline.experiments.config.position import Alibi, Axial, Pope, Rope, XPos, longest_text, spectrum
from leadline.experiments.config.scaling import (
    DynamicNtk,
    DynamicYarn,
    Llama3,
    LongRope,
    NtkAware,
    NtkByParts,
    PositionInterpolation,
    Scaling,
    TablePer,
    Yarn,
)
from leadline.experiments.runtime.errors import UserError
from leadline.model.attention.hyperparameters import hyperparameters
from leadline.model.attention.mask import NO_WINDOW
from leadline.model.positions import frequencies as rope
from leadline.model.positions.alibi import alibi_slopes
from leadline.model.positions.frequencies import llama3, longrope, longrope_attention_factor
from leadline.model.positions.partial import p_rope, partial
from leadline.model.positions.sections import axial, interleaved_sections, sectioned
from leadline.model.positions.tables import PositionTables, by_layer, position_tables
from leadline.model.positions.xpos import xpos_decay
from leadline.model.positions.yarn import dynamic_yarn, ntk_by_parts, yarn, yarn_attention_factor

Row = tuple[np.ndarray, Any]  # inverse frequencies, float64, and what broadcasts to their attention factors


def tables(model: ModelConfig, train_length: int, text_length: int | None = None, *, trained: float = 1.0) -> PositionTables:
    """The tables of a model, [L, …], for texts of `text_length` tokens (absent: as in training).

    `trained` is the part of the training that is over, for positions that are dropped on the way.
    """
    bounds = (0.0, 1.0)
    match model.normalizer:
        case Clipped(low=low, high=high):
            bounds = low, high
        case Sigmoid(bias=bias):
            bounds = (-math.log(train_length) if bias is None else bias), 0.0
        case _:
            pass
    gate = (model.gate.low, model.gate.high) if isinstance(model.gate, Gate) else (0.0, 1.0)
    cap = model.soft_cap or math.inf
    values = hyperparameters(model.layers, scale=1 / model.temperature, cap=cap, normalizer=bounds, gate=gate)
    return dataclasses.replace(_positions(model, train_length, text_length, trained), attention=values)


def _positions(model: ModelConfig, train_length: int, text_length: int | None, trained: float) -> PositionTables:
    size, position = model.head_width, model.position
    length = train_length if text_length is None else text_length
    end, why = longest_text(position, size, train_length)
    if length > end:
        raise UserError(f"{why} at {end:.0f} tokens, this text has {length}: shorten it or take another encoding")
    sight = {"window": model.window or NO_WINDOW, "initial_tokens": model.initial_tokens or 0}
    rows = functools.partial(position_tables, model.layers, model.heads, size, **sight)
    match position:
        case Rope():
            frequencies, factor = _over_text(model, length, lambda text: _rope(position, size, train_length, text))
            found = rows(inverse_frequencies=frequencies, attention_factor=factor)
            return _without(found, position, trained)
        case Axial(base=base, grid=grid):
            return rows(inverse_frequencies=axial(size, base, len(grid) + 1))
        case XPos(base=base) | Pope(base=base):
            scaling, dimension = position.scaling, spectrum(position, size)
            frequencies, factor = _over_text(model, length, lambda text: scaled(scaling, dimension, base, train_length, text))
            decay = None
            if isinstance(position, XPos):
                decay = xpos_decay(size, gamma=position.gamma, scale_base=position.scale_base)
            return rows(inverse_frequencies=frequencies, attention_factor=factor, decay=decay)
        case Alibi():
            return rows(slopes=alibi_slopes(model.heads))
        case _:
            return rows()


def scaled(scaling: Scaling, size: int, base: float, train_length: int, text_length: int) -> tuple[np.ndarray, float]:
    """Inverse frequencies of the spectrum d = `size`, float64 [d/2], and the final factor of cos and sin, for a text length."""
    match scaling:
        case PositionInterpolation(factor=factor):
            return rope.position_interpolation(size, base, factor), 1.0
        case NtkAware(factor=factor):
            return rope.ntk_aware(size, base, factor), 1.0
        case DynamicNtk(factor=factor):
            original = scaling.original_length or train_length
            return rope.dynamic_ntk(size, base, factor, original, text_length), 1.0
        case NtkByParts(factor=factor):
            return ntk_by_parts(size, base, factor, scaling.original_length or train_length, **_ramp(scaling)), 1.0
        case Yarn(factor=factor, attention_factor=final, attention_multiplier=multiplier):
            table = yarn(size, base, factor, scaling.original_length or train_length, **_ramp(scaling))
            return table, final or yarn_attention_factor(factor, multiplier=multiplier or 1.0)
        case DynamicYarn():
            original = scaling.original_length or train_length
            table = dynamic_yarn(size, base, original, text_length, **_ramp(scaling))
            return table, yarn_attention_factor(max(1.0, text_length / original))
        case Llama3(factor=factor, low_frequency_factor=low, high_frequency_factor=high):
            original = scaling.original_length or train_length
            return llama3(size, base, factor, original, low_frequency_factor=low, high_frequency_factor=high), 1.0
        case LongRope(factor=factor, attention_factor=final):
            original = scaling.original_length or train_length
            table = longrope(size, base, scaling.long if text_length > original else scaling.short)
            return table, final or longrope_attention_factor(factor, original)
        case _:
            return rope.inverse_frequencies(size, base), 1.0


def table_per(model: ModelConfig) -> TablePer:
    """What the rows of a model's tables depend on: compiled in."""
    match model.position:
        case Rope(scaling=scaling) | XPos(scaling=scaling) | Pope(scaling=scaling):
            return scaling.per if isinstance(scaling, DynamicNtk | DynamicYarn | LongRope) else "sequence"
        case _:
            return "sequence"


def _ramp(parts: NtkByParts | Yarn | DynamicYarn) -> dict[str, Any]:
    return parts.model_dump(include={"beta_fast", "beta_slow", "ramp", "truncate"})


def _over_text(model: ModelConfig, length: int, row: Callable[[int], Row]) -> Row:
    """The row of a text of that length, or one for each length up to it."""
    if table_per(model) == "sequence":
        return row(length)
    tables, factors = zip(*(row(place + 1) for place in range(length)), strict=True)
    stacked = np.stack(tables)
    stacked = stacked[:, None] if stacked.ndim == 2 else stacked
    return stacked, np.stack([np.broadcast_to(factor, stacked.shape[-1]) for factor in factors])


def _rope(position: Rope, size: int, train_length: int, text_length: int) -> Row:
    """Of one text length: what is rotated, and by which coordinate."""
    scaling, base = position.scaling, position.base
    table, factor = scaled(scaling, spectrum(position, size), base, train_length, text_length)
    if position.partial < 1:
        squeezed = partial(size, position.partial, lambda rotary: table)  # noqa: ARG005
        return squeezed.table, np.where(squeezed.rotated, factor, 1.0)
    if position.sections is not None:
        divide = interleaved_sections if position.interleaved_sections else sectioned
        return divide(table, position.sections), factor
    return p_rope(table, position.p), factor


def _without(tables: PositionTables, position: Rope, trained: float) -> PositionTables:
    """iRoPE's layers without positions and their temperature; DroPE's end of training."""
    none = jax.tree.map(jnp.zeros_like, tables.frequencies)
    nope = dataclasses.replace(tables, frequencies=none, attention_factor=jnp.ones_like(tables.attention_factor))
    if position.drop_after is not None and trained >= position.drop_after:
        return nope
    if position.nope_every is None:
        return tables
    if position.temperature is not None:
        strength, span = position.temperature.strength, position.temperature.span
        nope = dataclasses.replace(
            nope,
            temperature=jnp.full_like(nope.temperature, strength),
            temperature_span=jnp.full_like(nope.temperature_span, span),
        )
    return by_layer(tables, nope, position.nope_every)
