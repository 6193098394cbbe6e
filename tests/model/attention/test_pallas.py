"""The kernels as they are lowered for machines that are not here; what they compute: test_gradients, test_context_parallel."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AbstractDevice, AbstractMesh, AxisType

from leadline.model.attention.attention import attention, form
from leadline.model.attention.mask import Mask
from leadline.model.attention.scores import Scores
from leadline.model.mesh import AXES

GPU = AbstractDevice(device_kind="NVIDIA H200", num_cores=None, platform="gpu")
TPU = {name: AbstractDevice(device_kind=name, num_cores=1, platform="tpu") for name in ("TPU v4", "TPU v5 lite")}
MACHINES = {"cuda": (GPU, "__gpu$xla.gpu.triton"), "tpu": (TPU["TPU v5 lite"], "tpu_custom_call")}


def summed(given: Any, mask: Any, padding: Any) -> jax.Array:
    """The output of attention, all numbers added."""
    scores = Scores(sink_logit=given["sink_logit"], slopes=given["slopes"])
    window, initial_tokens, chunk = mask
    seen = Mask(window, initial_tokens, padding=padding, chunk=chunk)
    out, _ = attention(given["q"], given["k"], given["v"], seen, scores)
    return jnp.sum(out.astype(jnp.float32))


def devices(kind: AbstractDevice | None) -> AbstractMesh:
    return AbstractMesh((1,) * 4, AXES, axis_types=(AxisType.Explicit,) * 4, abstract_device=kind)


def lowered(machine: str, dtype: str, channels: int, *, padded: bool, members: int | None = None) -> str:
    """The program of the loss and all of its gradients, of texts of 1000 tokens, or of so many models at once."""
    many = () if members is None else (members,)
    shapes = {"q": (2, 1000, 4, channels), "k": (2, 1000, 2, channels), "v": (2, 1000, 2, channels)}
    given = {name: jax.ShapeDtypeStruct(many + shape, dtype) for name, shape in shapes.items()}
    given |= {name: jax.ShapeDtypeStruct((*many, 4), jnp.float32) for name in ("sink_logit", "slopes")}
    padding = jax.ShapeDtypeStruct((2, 1000), bool) if padded else None
    function = jax.value_and_grad(summed)
    if members is not None:
        function = jax.vmap(function, in_axes=(0, (0, 0, 0), None))
    with jax.sharding.use_abstract_mesh(devices(MACHINES[machine][0])):
        traced = jax.jit(function).trace(given, (jax.ShapeDtypeStruct(many, jnp.int32),) * 3, padding)
        return traced.lower(lowering_platforms=(machine,)).as_text()


CASES = {
    "bfloat16": {"dtype": "bfloat16", "channels": 64, "padded": False},
    "float32, padding": {"dtype": "float32", "channels": 128, "padded": True},
    "channels that are no power of two": {"dtype": "bfloat16", "channels": 80, "padded": True},
    "a sweep over windows": {"dtype": "bfloat16", "channels": 64, "padded": True, "members": 3},
}


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")  # docs/performance.md
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("machine", MACHINES)
def test_value_and_gradients_are_three_kernels_and_no_other_product(machine: str, case: str) -> None:
    program = lowered(machine, **CASES[case])  # pyright: ignore[reportArgumentType]
    assert len(re.findall(rf"custom_call @{re.escape(MACHINES[machine][1])}\b", program)) == 3
    assert program.count("stablehlo.dot_general") == 1  # δ = Σ dO ⊙ O, whose factors are not rounded


def test_a_tpu_has_kernels_for_as_many_keys_as_half_of_its_vector_memory_holds() -> None:
    """16 MiB of a v4, 128 MiB of a v5e: 1 KiB a key of 128 channels in bfloat16."""
    for name, longest in {"TPU v4": 2**13, "TPU v5 lite": 2**16}.items():
        with jax.sharding.use_abstract_mesh(devices(TPU[name])):
            forms = [form(n, n, device="tpu", channels=128, itemsize=2) for n in (longest, 2 * longest)]
        assert forms == ["kernel", "tiles"]
