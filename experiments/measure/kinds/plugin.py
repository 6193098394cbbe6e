"""Measurements from elsewhere: `measure.functions = ["package.module:function"]`.

A measurement is a pure function of one batch, marked with the quantity that it gives. It runs inside the compiled program of
every point of the curves, and so at the end too; batches are averaged. A module anywhere on PYTHONPATH will do:

    import jax.numpy as jnp
    from leadline.experiments.measure.kinds.plugin import of_layer, of_model
    from leadline.experiments.records.quantities import Quantity

    @of_layer(Quantity("second_mass", "share", "attention to the second token", axes=("layer", "head")))
    def second_mass(trace, tokens):                       # LayerTrace, ids [B, T] -> [N]
        return jnp.mean(trace.attention.received[..., 1], axis=0) / tokens.shape[1]

    @of_model(Quantity("query_norm", "1", "norm of the query weights", axes=("layer",)))
    def query_norm(params, tables, tokens, cfg):          # -> {name: array}, one for each quantity
        return {"query_norm": jnp.linalg.norm(params.blocks.query.reshape(cfg.layers, -1), axis=1)}

The functions get what `leadline.model.decoder.apply_decoder` takes, with the ids [B, T + 1] of inputs and targets. A function
of a layer that measures its quantity at several dimensions gives {reading(name, dimension=…): array}.
"""

import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from leadline.experiments.measure.evaluate import Statistics, evaluate
from leadline.experiments.records.measurement import reading
from leadline.experiments.records.quantities import QUANTITIES, Quantity, table
from leadline.experiments.runtime.errors import UserError
from leadline.model.block import LayerTrace
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.positions.tables import PositionTables

OfLayer = Callable[[LayerTrace, Int[Array, "B T"]], Float[Array, "..."] | Statistics]
OfModel = Callable[[Decoder, PositionTables, Int[Array, "B T_and_1"], DecoderConfig], dict[str, Float[Array, "..."]]]


@dataclass(frozen=True)
class Plugin:
    """A function of the trace of one layer, or of a whole model, and the quantities that it gives."""

    function: Callable[..., Any]
    quantities: tuple[Quantity, ...]
    of_layer: bool


def of_layer(quantity: Quantity) -> Callable[[OfLayer], Plugin]:
    """Marks a function of (trace, tokens) as the measurement of a quantity of every layer.

    Raises:
        ValueError: unless the axes of the quantity begin with "layer".
    """
    if quantity.axes[:1] != ("layer",):
        raise ValueError(f'the axes of {quantity.name}, {quantity.axes}, must begin with "layer"')
    return lambda function: Plugin(function, (quantity,), of_layer=True)


def of_model(*quantities: Quantity) -> Callable[[OfModel], Plugin]:
    """Marks a function of (params, tables, tokens, cfg) as the measurement of these quantities."""
    return lambda function: Plugin(function, quantities, of_layer=False)


def quantities_of(names: Sequence[str]) -> Mapping[str, Quantity]:
    """The table of quantities with those of the plugged measurements.

    Raises:
        UserError: naming what cannot be imported, and what can be where that is near, or a quantity that is already there.
    """
    try:
        return table([*QUANTITIES.values(), *(quantity for plugin in map(_plugged, names) for quantity in plugin.quantities)])
    except ValueError as error:
        raise UserError(f"measure.functions = {list(names)}: {error}; give yours another name") from error


def plugged_statistics(
    names: Sequence[str], params: Decoder, tables: PositionTables, batches: Int[Array, "C B T_and_1"], cfg: DecoderConfig
) -> Statistics:
    """What the plugged measurements give for C batches, inside a compiled program.

    Raises:
        UserError: where they give other quantities or axes than they are marked with.
    """
    plugins = [_plugged(name) for name in names]
    layers = [plugin for plugin in plugins if plugin.of_layer]
    statistics: Statistics = {}
    if layers:

        def of_trace(trace: LayerTrace, tokens: Int[Array, "B T"]) -> Statistics:
            return {key: value for plugin in layers for key, value in _of_trace(plugin, trace, tokens).items()}

        statistics |= evaluate(params, tables, batches, cfg, of_layer=of_trace)[1]
    for plugin in (plugin for plugin in plugins if not plugin.of_layer):
        values = jax.lax.map(lambda tokens, plugin=plugin: plugin.function(params, tables, tokens, cfg), batches)
        marked = [quantity.name for quantity in plugin.quantities]
        if set(values) != set(marked):
            raise UserError(f"a plugged measurement of {marked} gives {sorted(values)}: return one array for each")
        statistics |= {reading(name): jnp.mean(value, axis=0) for name, value in values.items()}
    quantities = {quantity.name: quantity for plugin in plugins for quantity in plugin.quantities}
    for key, value in statistics.items():
        quantity = quantities[key.quantity]
        if value.ndim != len(quantity.axes):
            raise UserError(f"{quantity.name} has the axes {quantity.axes}, and its function gives the shape {value.shape}")
    return statistics


def _of_trace(plugin: Plugin, trace: LayerTrace, tokens: Int[Array, "B T"]) -> Statistics:
    """What a function of a layer gives, by reading.

    Raises:
        UserError: for readings of another quantity than its own.
    """
    (name,), values = (quantity.name for quantity in plugin.quantities), plugin.function(trace, tokens)
    readings = values if isinstance(values, dict) else {reading(name): values}
    if {key.quantity for key in readings} != {name}:
        raise UserError(f"a plugged measurement of {name!r} gives {sorted(readings)}: return readings of {name!r}")
    return readings


def _plugged(name: str) -> Plugin:
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise UserError(f'measure.functions: {name!r} is not of the form "package.module:function"')
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise UserError(f"measure.functions: {name!r} cannot be imported ({error}); is its folder on PYTHONPATH?") from error
    except Exception as error:  # whatever a module of somebody else's raises
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"measure.functions: {name!r}: importing {module_name!r} fails ({reason}); mend it") from error
    content: dict[str, Any] = vars(module)
    plugin = content.get(attribute)
    if isinstance(plugin, Plugin):
        return plugin
    if attribute in content:
        raise UserError(f"measure.functions: {name!r} has no quantity: mark it with of_layer(Quantity(...)) or of_model(...)")
    near = difflib.get_close_matches(attribute, content, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise UserError(f"measure.functions: {module_name!r} has no {attribute!r}{hint}")
