"""At which place in a block, and how finely, a gate pays: the tables of Qiu et al. 2025 (arXiv:2505.06708)."""

from collections.abc import Sequence

from experiments.publish.summary import arms, cell, trained_notes
from experiments.publish.table import MISSING, Table
from experiments.record import Record

STUDY = "gate_position"
QUESTION = "At which place in a block, and how finely, does a gate lower the loss and remove the sink?"

LABELS = {
    "softmax": "no gate",
    "output_channel": "output (G1), elementwise",
    "output_head": "output (G1), headwise",
    "output_shared": "output (G1), shared by heads",
    "output_static": "output (G1), without input",
    "output_restricted": "output (G1), elementwise, in 1/2 … 1",
    "output_silu": "output (G1), elementwise, SiLU",
    "value_channel": "values (G2), elementwise",
    "value_head": "values (G2), headwise",
    "value_shared": "values (G2), shared by heads",
    "value_static": "values (G2), without input",
    "key_channel": "keys (G3), elementwise",
    "key_head": "keys (G3), headwise",
    "query_channel": "queries (G4), elementwise",
    "query_head": "queries (G4), headwise",
    "projection_channel": "projection (G5), elementwise",
}

# Perplexity, largest activation, first-token mass and gate mean of a mixture of experts of 15B parameters, 2B active, after
# 400B tokens (Qiu et al. 2025, arXiv:2505.06708).
PUBLISHED = {
    "softmax": "6.026; 1053; 0.467",
    "output_channel": "5.761; 94; 0.048; 0.116",
    "output_head": "5.792; 98; 0.073",
    "output_shared": "5.801; 286; 0.301; 0.271",
    "output_silu": "5.822",
    "value_channel": "5.820; 125; 0.297",
    "value_head": "5.808",
    "value_shared": "5.867",
    "key_channel": "6.016",
    "query_channel": "5.981",
    "projection_channel": "6.017",
}

_COLUMNS = (
    ("loss", "loss (nats)", 3),
    ("first_token_mass", "first-token mass", 3),
    ("sink_rate", "sink rate", 3),
    ("activation_ratio", "largest / median activation", 1),
    ("residual_norm_ratio", "residual peak", 2),
    ("gate_mean", "gate mean", 3),
    ("gate_under_0.1", "gates under 0.1", 3),
)


def table(records: Sequence[Record]) -> Table:
    """Loss, sink and gate of every place."""
    rows = tuple(
        (
            LABELS.get(arm, arm),
            *(cell(records, arm, name, digits) for name, _, digits in _COLUMNS),
            PUBLISHED.get(arm, MISSING),
        )
        for arm in arms(records, tuple(LABELS))
    )
    columns = ("gate", *(heading for _, heading, _ in _COLUMNS), "published")
    note = (
        "published: perplexity; largest activation; first-token mass; gate mean, as far as they are in print, of Qiu et al. "
        "2025, arXiv:2505.06708 (15A2B, 400B tokens)"
    )
    return Table("Where a gate belongs", STUDY, columns, rows, (*trained_notes(records), note))
