"""Statistics of models that are measured side by side, one a device of the CPU."""

import subprocess
import sys

# Two devices decompose matrices at once, beside products that keep the threads of the CPU busy. With all matrices in one call
# of LAPACK, this never ended.
SIDE_BY_SIDE = """
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from leadline.experiments.measure.sinks import share_outside

jax.config.update("jax_num_cpu_devices", 2)
devices, texts, tokens, heads, width = 2, 2, 40, 16, 64


def member(key):
    def again(total, _):
        shares = [jnp.sum(share_outside(key[0] + 1e-3 * total + i)[0]) for i in range(2)]
        wide = jnp.tile(key[0, 0, :heads] + total, (1, 8, 8))  # [heads, 8 * heads, 8 * width]
        products = [jnp.mean(f(wide) @ jnp.swapaxes(g(wide), 1, 2)) for f, g in ((jnp.sin, jnp.cos), (jnp.cos, jnp.sin))]
        return 1e-3 * sum(shares) + 1e-9 * sum(products), None

    return jax.lax.scan(again, jnp.float32(0), None, length=20)[0][None]


mesh = jax.make_mesh((devices,), ("arm",))
keys = jax.random.normal(jax.random.key(0), (devices, texts, tokens, heads, width))
with jax.set_mesh(mesh):
    measured = jax.jit(jax.shard_map(member, in_specs=P("arm"), out_specs=P("arm"), check_vma=False))
    print(jnp.isfinite(measured(jax.device_put(keys, jax.NamedSharding(mesh, P("arm"))))).all())
"""


def test_two_devices_decompose_matrices_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", SIDE_BY_SIDE], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "True", done.stderr
