"""The statistics that every study takes of every layer, and how they become one number."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Array, Float

from experiments.measure.activations import activation_ratio, gate_mean, gate_share_under
from experiments.measure.retrieval import UNITS as RETRIEVAL_UNITS
from experiments.measure.sinks import mean_mass, sink_rate
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
    **RETRIEVAL_UNITS,
}

# Measurements that no one number sums up: they are in a record's arrays only.
ARRAYS = frozenset({"loss_by_position", "sampled_loss_by_position", "position_edges"})


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


def as_number(name: str, values: np.ndarray) -> float:
    """One number of all layers and heads: their mean, but the largest layer's activation ratio."""
    return float(np.max(values) if name == "activation_ratio" else np.mean(values, dtype=np.float64))
