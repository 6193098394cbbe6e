"""Memory of a compiled program for a model that is too large to be loaded here."""

import jax
import jax.numpy as jnp
import pytest
from jaxtyping import Array, Int

from leadline.experiments.config.measure import SinkRate
from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.config.to_tables import tables
from leadline.experiments.measure.evaluate import Statistics, evaluate
from leadline.experiments.measure.layers import layer_statistics, sink_statistics
from leadline.experiments.published.load import MATRICES, decoder_shapes, weights_by_name
from leadline.model.block import LayerTrace
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.mesh import make_mesh
from leadline.model.positions.tables import PositionTables

TOKENS, ACCELERATOR = 32768, 80e9  # bytes
LLAMA_2_7B = ModelConfig.model_validate(
    {
        "layers": 32,
        "width": 4096,
        "heads": 32,
        "hidden": 11008,
        "norm_epsilon": 1e-5,
        "tied": False,
        "position": {"kind": "rope", "base": 10000.0},
        "compute_dtype": "bfloat16",
    }
)


def shapes_on_device(cfg: DecoderConfig) -> Decoder:
    """Shapes and types of the weights as `load` puts them on the devices."""
    shapes = decoder_shapes(cfg)
    types = {name: cfg.compute if name in MATRICES else "float32" for name in weights_by_name(shapes)}
    leaves = [jax.ShapeDtypeStruct(leaf.shape, types[name]) for name, leaf in weights_by_name(shapes).items()]
    return jax.tree.structure(shapes).unflatten(leaves)


@pytest.mark.slow
def test_statistics_of_a_7b_model_at_32k_tokens_fit_an_accelerator() -> None:
    """Losses, sinks and activations of all layers and heads, in bfloat16: 13.5 GB of weights and 32.6 GB besides them."""
    cfg = decoder_config(LLAMA_2_7B, 32000, TOKENS)

    def statistics(params: Decoder, rows: PositionTables, batches: Int[Array, "1 1 T_and_1"]) -> tuple[Array, Statistics]:
        def of_layer(trace: LayerTrace, tokens: Int[Array, "1 T"]) -> Statistics:  # noqa: ARG001
            return sink_statistics(trace, SinkRate(length=TOKENS)) | layer_statistics(trace)

        return evaluate(params, rows, batches, cfg, of_layer=of_layer)

    with jax.set_mesh(make_mesh()):
        rows = jax.eval_shape(lambda: tables(LLAMA_2_7B, TOKENS, TOKENS))
        ids = jax.ShapeDtypeStruct((1, 1, TOKENS + 1), jnp.int32)
        memory = jax.jit(statistics).lower(shapes_on_device(cfg), rows, ids).compile().memory_analysis()
    assert memory is not None
    needed = memory.argument_size_in_bytes + memory.temp_size_in_bytes + memory.output_size_in_bytes
    assert 13e9 < memory.argument_size_in_bytes < needed < ACCELERATOR
