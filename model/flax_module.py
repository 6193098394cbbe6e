"""The decoder as a `flax.nnx.Module`, for those who embed it in a Flax model. Nothing else here imports nnx."""

from collections.abc import Callable
from typing import Any

from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from leadline.model.block import LayerTrace
from leadline.model.context import Context
from leadline.model.decoder import DecoderConfig, apply_decoder, init_decoder
from leadline.model.positions.tables import PositionTables


class DecoderModule(nnx.Module):
    """Holds the weights of `init_decoder` in one `nnx.Param` and calls `apply_decoder`.

    Optimisers and transforms of nnx reach every weight through that parameter; `module.weights[...]` is the tree itself.
    """

    def __init__(self, cfg: DecoderConfig, *, rngs: nnx.Rngs, sink_logit: float | None = None) -> None:
        self.cfg = cfg
        self.weights = nnx.Param(init_decoder(rngs.params(), cfg, sink_logit=sink_logit))

    def __call__(
        self,
        tokens: Int[Array, "B T"],
        tables: PositionTables,
        *,
        padding: Bool[Array, "B T"] | None = None,
        measure: Callable[[LayerTrace], Any] | None = None,
    ) -> tuple[Float[Array, "B T V"], Any]:
        """As `apply_decoder`: logits, and what `measure` returns for each layer."""
        return apply_decoder(
            self.weights.get_value(), tokens, tables, self.cfg, context=Context(padding=padding), measure=measure
        )
