"""Principal angles between learned positions and the embeddings of tokens, for `measure.functions`."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from leadline.experiments.measure.kinds.plugin import of_model
from leadline.experiments.records.quantities import Quantity
from leadline.experiments.runtime.errors import UserError
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.positions.tables import PositionTables

PART = 4  # k = D / 4 directions of each table


@of_model(
    Quantity(
        "position_overlap",
        "share",
        "mean cos² of the principal angles between leading directions of learned positions and of embeddings",
        "mean cos² of angles",
    ),
    Quantity(
        "smallest_angle",
        "degrees",
        "smallest principal angle between leading directions of learned positions and of embeddings",
        "smallest angle",
        digits=1,
    ),
)
def position_angles(
    params: Decoder,
    tables: PositionTables,  # noqa: ARG001
    tokens: Int[Array, "B T_and_1"],  # noqa: ARG001
    cfg: DecoderConfig,
) -> dict[str, Float[Array, ""]]:
    """The principal angles θ_i of two subspaces of D / 4 dimensions (Björck and Golub 1973, doi:10.2307/2005662).

        cos θ_i = σ_i(Aᵀ B),      A and B: the right singular vectors of either table with the largest singular values

    The mean cos² is the share of one subspace that lies in the other. Of two random subspaces of k dimensions of D it is k / D
    in expectation, here 1/4: the mean of |Aᵀ b|² over directions b, each of which has k of D equal shares in A.

    Raises:
        UserError: for a model without learned positions, and for tables of fewer rows than D / 4.
    """
    k = cfg.block.width // PART
    if params.positions is None:
        raise UserError("position_angles: the model has no learned positions; set position = 'learned'")
    if k < 1 or k > min(len(params.positions), len(params.embedding)):
        raise UserError(
            f"position_angles: {k} directions of tables of {len(params.positions)} and {len(params.embedding)} rows"
        )
    cosines = principal_cosines(params.positions, params.embedding, k)
    return {
        "position_overlap": jnp.mean(jnp.square(cosines)),
        "smallest_angle": jnp.degrees(jnp.arccos(jnp.minimum(cosines[0], 1))),
    }


def principal_cosines(first: Float[Array, "M D"], second: Float[Array, "V D"], k: int) -> Float[Array, " k"]:
    """cos θ_i of the leading k directions of the rows of two tables, the largest first."""
    a, b = (jnp.linalg.svd(table, full_matrices=False)[2][:k] for table in (first, second))
    return jnp.linalg.svd(a @ b.T, compute_uv=False)
