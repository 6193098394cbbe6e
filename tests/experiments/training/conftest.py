"""Programs of toy size, compiled once for all runs of a process."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import pytest

from leadline.experiments.training import loop
from leadline.experiments.training.group import RunGroup

# Settings that no program depends on.
LOOP_ONLY = {"steps": 1, "checkpoint_every": 0, "diverged": 3.0}
KEPT: dict[Any, Callable[..., Any]] = {}


@pytest.fixture(scope="module", autouse=True)
def programs_shared() -> Iterator[None]:
    """Groups of one structure, and of arguments of equal shapes and shardings, take each other's programs."""
    compile_now, prepare_now, structures = loop.compiled, loop.Ensemble, []

    def prepare(group: RunGroup, names: list[str]) -> Any:
        model, data, train, measure = group.structure
        structures.append((model, data, train.model_copy(update=LOOP_ONLY), measure.model_copy(update={"every": 1})))
        return prepare_now(group, names)

    def compiled(name: str, function: Callable[..., Any], names: list[str], *arguments: Any) -> Callable[..., Any]:
        leaves, tree = jax.tree.flatten(arguments)
        key = name, structures[-1], tree, tuple(f"{jax.typeof(leaf)} {leaf.sharding}" for leaf in leaves)
        if key not in KEPT:
            KEPT[key] = compile_now(name, function, [], *arguments)
        names.append(name)
        return KEPT[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "Ensemble", prepare)
        patch.setattr(loop, "compiled", compiled)
        yield
