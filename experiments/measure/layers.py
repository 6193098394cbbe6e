"""The statistics that every study takes of every layer, and how they become one number."""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from experiments.measure.activations import activation_ratio, gate_mean, gate_share_under, kurtosis, massive_activations
from experiments.measure.keys import key_cosines, logit_gap, share_outside
from experiments.measure.retrieval import UNITS as RETRIEVAL_UNITS
from experiments.measure.sinks import first_norm_ratio, mean_mass, sink_rate
from experiments.measure.vocabulary import UNITS as VOCABULARY_UNITS
from model.block import LayerTrace

# A gate below this lets almost nothing through.
CLOSED = 0.1

UNITS: Mapping[str, str] = {
    "loss": "nats",
    "bigram_loss": "nats",
    "bigram_excess": "nats",
    "backcopy_loss": "nats",
    "perplexity": "per token",
    "perplexity_windows": "per token",
    "perplexity_documents": "per token",
    "perplexity_last": "per token",
    "perplexity_sampled": "per token",
    "perplexity_start": "per token",
    "recall_loss": "nats",
    "recall_accuracy": "share",
    "accuracy": "share",
    "accuracy_within": "share",
    "accuracy_beyond": "share",
    "answers": "answers",
    "recalled_at_distance": "answers",
    "answers_at_distance": "answers",
    "reach": "tokens",
    "predicted_reach": "tokens",
    "bos_mass": "share",
    "bos_value_ratio": "ratio",
    "sink_rate": "share",
    "first_token_mass": "share",
    "logit_mass": "share",
    "activation_ratio": "ratio",
    "gate_mean": "share",
    "gate_under_0.1": "share",
    "far_mass": "share",
    "entropy": "nats",
    "value_norm_ratio": "ratio",
    "key_norm_ratio": "ratio",
    "residual_norm_ratio": "ratio",
    "key_cosine": "cosine",
    "key_cosine_others": "cosine",
    "logit_gap": "logits",
    "key_outside": "share",
    "key_dims": "dimensions",
    "kurtosis": "ratio",
    "early_divergence": "nats",
    "gradient_norm": "nats",
    "change_zero_value": "nats",
    "change_mean_value": "nats",
    "change_forced": "nats",
    "change_hidden": "nats",
    "dormant_code": "share",
    "dormant_prose": "share",
    "dormant_in_one": "share",
    **RETRIEVAL_UNITS,
    **VOCABULARY_UNITS,
}

# Measurements that no one number sums up: they are in a record's arrays only.
ARRAYS = frozenset(
    {
        "loss_by_position", "sampled_loss_by_position", "position_edges", "massive_activations", "head_removed",
        "attention_map", "domain_mass",
    }
)  # fmt: skip
# Of these the largest layer is the number; of all others the mean over layers and heads.
PEAKS = frozenset({"activation_ratio", "residual_norm_ratio"})


def sink_statistics(trace: LayerTrace, *, token: int, epsilon: float) -> dict[str, Float[Array, " N"]]:
    """Sink rate, and what the first token and the extra logit receive, of each head."""
    return {
        "sink_rate": sink_rate(trace.attention.received, token=token, epsilon=epsilon),
        "first_token_mass": mean_mass(trace.attention.first),
        "logit_mass": mean_mass(trace.attention.extra),
    }


def layer_statistics(trace: LayerTrace, *, token: int, epsilon: float) -> dict[str, Float[Array, "..."]]:
    """The sinks of each head, the activation ratio [], and of a gate its mean and sparsity [heads]."""
    found = sink_statistics(trace, token=token, epsilon=epsilon) | {"activation_ratio": activation_ratio(trace.residual)}
    if trace.gate is not None:
        found |= {"gate_mean": gate_mean(trace.gate), "gate_under_0.1": gate_share_under(trace.gate, CLOSED)}
    return found


def layer_anatomy(trace: LayerTrace, *, start: int) -> dict[str, Float[Array, "..."]]:
    """What else a layer tells of its sink, which a study takes of trained models only; positions count from `start` on.

    By head: mass of the first token from the later half of the queries, entropy, norms of the first value and key over the
    others', and where the scores are products of queries and keys, cosines, the gap of logits and the subspace of the keys. Of
    the residual stream behind the layer: the norm of the first token over the others', the three largest activations over the
    median, kurtosis.
    """
    tokens = trace.residual.shape[1]
    later = jnp.broadcast_to(jnp.arange(tokens)[None] >= tokens // 2, trace.residual.shape[:2])
    found = {
        "far_mass": mean_mass(trace.attention.first, later),
        "entropy": mean_mass(trace.attention.entropy),
        "massive_activations": massive_activations(trace.residual),
        "kurtosis": kurtosis(trace.residual),
    }
    found |= norm_statistics(trace, start=start)
    if trace.query is None or trace.key is None:
        return found
    cosines, subspace = key_cosines(trace.query, trace.key, start=start), share_outside(trace.key)
    return found | {
        "key_norm_ratio": first_norm_ratio(_norm(trace.key), start=start),
        "key_cosine": cosines.first,
        "key_cosine_others": cosines.others,
        "logit_gap": logit_gap(trace.query, trace.key, scale=trace.value.shape[-1] ** -0.5, start=start),
        "key_outside": subspace.share,
        "key_dims": subspace.dims,
    }


def norm_statistics(trace: LayerTrace, *, start: int) -> dict[str, Float[Array, "..."]]:
    """Norms of the first token over the others': of its value by head, and of its residual stream behind the layer."""
    return {
        "value_norm_ratio": first_norm_ratio(trace.value_norm, start=start),
        "residual_norm_ratio": first_norm_ratio(_norm(trace.residual), start=start),
    }


def _norm(x: Float[Array, "B T *heads H"]) -> Float[Array, "B T *heads"]:
    return jnp.linalg.norm(x.astype(jnp.float32), axis=-1)


def as_number(name: str, values: np.ndarray) -> float:
    """One number of all layers and heads."""
    return float(np.max(values) if name.split(".")[0] in PEAKS else np.mean(values, dtype=np.float64))
