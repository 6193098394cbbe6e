"""Memory of a traced function, estimated without compiling it."""

from collections.abc import Iterator
from typing import Any

from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal


def live_bytes(jaxpr: Jaxpr) -> int:
    """The most bytes that live at once, arguments included, if equations run one after the other and nothing is fused.

    A compiler fuses, so it rather takes less; the body of a loop counts once.
    """
    last = {id(var): place for place, eqn in enumerate(jaxpr.eqns) for var in _variables(eqn.invars)}
    last |= {id(var): len(jaxpr.eqns) for var in _variables(jaxpr.outvars)}
    live = most = _bytes([*jaxpr.invars, *jaxpr.constvars])
    ending: dict[int, int] = {}  # bytes that are free after an equation
    kept = {id(var) for var in (*jaxpr.invars, *jaxpr.constvars)}  # the caller holds them
    for place, eqn in enumerate(jaxpr.eqns):
        # What a body takes besides what it is given and what it gives back, which is counted here.
        inner = [live_bytes(body) - _bytes(body.invars) - _bytes(body.outvars) for body in bodies(eqn)]
        live += _bytes(eqn.outvars)
        most = max(most, live + max(inner, default=0), live)
        for var in eqn.outvars:
            if id(var) not in kept:
                end = last.get(id(var), place)
                ending[end] = ending.get(end, 0) + _bytes([var])
        live -= ending.pop(place, 0)
    return most


def inside(jaxpr: Jaxpr) -> Jaxpr:
    """What runs on one device of the function that `over_arms` makes, traced."""
    (local,) = (body for eqn in jaxpr.eqns if eqn.primitive.name == "shard_map" for body in bodies(eqn))
    return local


def bodies(eqn: Any) -> Iterator[Jaxpr]:
    """The functions that an equation of a jaxpr calls."""
    for value in eqn.params.values():
        for entry in value if isinstance(value, tuple | list) else (value,):
            if isinstance(entry, ClosedJaxpr):
                yield entry.jaxpr
            elif isinstance(entry, Jaxpr):
                yield entry


def _variables(values: Any) -> Iterator[Any]:
    return (value for value in values if not isinstance(value, Literal))


def _bytes(variables: Any) -> int:
    shaped = (var.aval for var in variables if isinstance(var.aval, ShapedArray))
    return sum(aval.size * aval.dtype.itemsize for aval in shaped)
