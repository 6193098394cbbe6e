"""The tables that a configured position encoding gives to a model."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from leadline.experiments.config.attention import Clipped, Gate, Sigmoid
from leadline.experiments.config.encoding import Encoding, Heads
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.position import Rope
from leadline.experiments.config.scaling import TextLengths
from leadline.experiments.runtime.errors import UserError
from leadline.model.attention.hyperparameters import hyperparameters
from leadline.model.attention.mask import NO_WINDOW
from leadline.model.positions.tables import PositionTables, by_layer, position_tables


def tables(model: ModelConfig, train_length: int, text_length: int | None = None, *, trained: float = 1.0) -> PositionTables:
    """The tables of a model, [L, …], for texts of `text_length` tokens (absent: as in training).

    `trained` is the part of the training that is over, for positions that are dropped on the way.

    Raises:
        UserError: for a text that is longer than the encoding can take.
    """
    match model.normalizer:
        case Clipped(low=low, high=high):
            bounds = low, high
        case Sigmoid(bias=bias):
            bounds = (-math.log(train_length) if bias is None else bias), 0.0
        case _:
            bounds = 0.0, 1.0
    gate = (model.gate.low, model.gate.high) if isinstance(model.gate, Gate) else (0.0, 1.0)
    cap = model.soft_cap or math.inf
    values = hyperparameters(model.table_rows, scale=1 / model.temperature, cap=cap, normalizer=bounds, gate=gate)
    lengths = TextLengths(train_length, text_length or train_length)
    end, why = model.longest(lengths.trained)
    if lengths.text > end:
        raise UserError(f"{why} at {end:.0f} tokens, this text has {lengths.text}: shorten it or take another encoding")
    rows = _layers(model, model.position, None if model.windowed else model.window, lengths, trained)
    if model.windowed:
        windowed = _layers(model, model.window_position or model.position, model.window, lengths, trained)
        rows = by_layer(rows, windowed, np.array(model.with_window))
    return dataclasses.replace(rows, attention=values)


def _layers(model: ModelConfig, position: Encoding, window: int | None, lengths: TextLengths, trained: float) -> PositionTables:
    """The tables of a model whose layers all have this encoding and this window."""
    rows = position_tables(
        model.table_rows,
        *model.attention_heads,
        window=window or NO_WINDOW,
        chunk=window if model.chunked and window else NO_WINDOW,
        initial_tokens=model.initial_tokens or 0,
        **_rows(position, model.attention_heads, lengths),
    )
    return _without(rows, position, trained) if isinstance(position, Rope) else rows


def _rows(position: Encoding, heads: Heads, lengths: TextLengths) -> dict[str, Any]:
    """The rows of a text of that length, or one for each length up to it."""
    if position.table_per == "sequence":
        return position.rows(heads, lengths)
    rows = [position.rows(heads, lengths._replace(text=place + 1)) for place in range(lengths.text)]
    stacked = np.stack([row["inverse_frequencies"] for row in rows])
    stacked = stacked[:, None] if stacked.ndim == 2 else stacked
    factors = [np.broadcast_to(row["attention_factor"], stacked.shape[-1]) for row in rows]
    return {**rows[-1], "inverse_frequencies": stacked, "attention_factor": np.stack(factors)}


def _without(tables: PositionTables, position: Rope, trained: float) -> PositionTables:
    """iRoPE's layers without positions and their temperature; DroPE's end of training."""
    dropped = position.drop_after is not None and trained >= position.drop_after
    if not dropped and position.nope_every is None:
        return tables
    none = jax.tree.map(jnp.zeros_like, tables.frequencies)
    nope = dataclasses.replace(tables, frequencies=none, attention_factor=jnp.ones_like(tables.attention_factor))
    tables = nope if dropped else tables
    if position.nope_every is None:
        return tables
    if position.temperature is not None:
        strength, span = position.temperature.strength, position.temperature.span
        nope = dataclasses.replace(
            nope,
            temperature=jnp.full_like(nope.temperature, strength),
            temperature_span=jnp.full_like(nope.temperature_span, span),
        )
    layers = np.arange(tables.window.shape[0]) + 1
    return by_layer(tables, nope, layers % position.nope_every == 0)
