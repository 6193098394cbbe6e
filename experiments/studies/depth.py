"""What each layer of a deeper model has of the sink, and how far it is from the final answer."""

import re
from collections.abc import Sequence

from experiments.publish.summary import arms, cell, trained_notes
from experiments.publish.table import Table
from experiments.record import Record

STUDY = "depth"
QUESTION = "Do deeper layers have more of the sink, and where is the answer decided?"

LABELS = {"softmax": "softmax", "headwise_gate": "output gate, headwise"}
QUANTITIES = (
    ("first_token_mass", "first-token mass", 3),
    ("residual_norm_ratio", "residual norm ratio", 2),
    ("value_norm_ratio", "value norm ratio", 3),
    ("entropy", "entropy (nats)", 2),
    ("activation_ratio", "largest / median activation", 1),
    ("kurtosis", "kurtosis", 1),
    ("early_divergence", "KL to the final answer (nats)", 3),
    ("gradient_norm", "gradient norm (nats)", 3),
)


def layers(records: Sequence[Record]) -> list[int]:
    """The layers that were told apart, counted from 1."""
    found = (re.fullmatch(r"kurtosis\.layer(\d+)", name) for record in records for name in record.measurements)
    return sorted({int(match[1]) for match in found if match})


def by_layer(name: str, layer: int) -> str:
    """The name of a quantity of one layer."""
    return f"{name.split('.')[0]}.layer{layer}"


def table(records: Sequence[Record]) -> Table:
    """A row a quantity and arm, a column a layer."""
    depth = layers(records)
    rows = tuple(
        (LABELS.get(arm, arm), heading, *(cell(records, arm, by_layer(name, layer), digits) for layer in depth))
        for name, heading, digits in QUANTITIES
        for arm in arms(records, tuple(LABELS))
    )
    columns = ("model", "quantity", *(f"layer {layer}" for layer in depth))
    meaning = (
        "of whole held-out windows of the training length; ratios: norm of the first token's over the mean of those from "
        "position 8 on; KL: from the final distribution to that decoded behind the layer by the final norm and unembedding"
    )
    return Table("Layer by layer", STUDY, columns, rows, (*trained_notes(records), meaning))
