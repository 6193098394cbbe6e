"""Which softmax biases and output gates remove the attention sink of Bigram-Backcopy?

The task is that of Guo et al. 2024 (arXiv:2410.13835).
"""

from collections.abc import Sequence

from experiments.publish.summary import arms, cell, trained_notes
from experiments.publish.table import MISSING, Table
from experiments.record import Record

STUDY = "sinks"
QUESTION = "Which softmax biases and output gates remove the attention sink of the Bigram-Backcopy task?"

LABELS = {
    "softmax": "softmax",
    "off_by_one": "softmax off by one",
    "learned_logit": "learned logit",
    "headwise_gate": "output gate, headwise",
    "elementwise_gate": "output gate, elementwise",
    "restricted_gate": "output gate in 1/2 … 1",
    "doubled_gate": "output gate 2σ from 1",
    "silu_gate": "output gate, SiLU",
    "narrow_gate": "headwise gate of 12 channels",
    "static_gate": "output gate without input",
    "value_gate": "value gate, elementwise",
    "key_gate": "key gate, elementwise",
    "query_gate": "query gate, elementwise",
    "projection_gate": "gate behind the projection",
    "k_bias": "K bias",
    "kv_bias": "K and V bias",
    "clipped": "clipped softmax",
    "softpick": "softpick",
    "relu": "ReLU",
    "relu_by_keys": "ReLU / keys",
    "relu_by_sum": "ReLU / sum",
    "sigmoid": "sigmoid",
    "sigmoid_by_sum": "sigmoid / sum",
    "temperature": "softmax at temperature 2",
    "soft_cap": "softmax, scores capped at 10",
    "qk_norm": "softmax, QK norm",
    "scalable": "scalable softmax",
}

# Published at the papers' own scale. First-token mass: Qiu et al., a mixture of experts of 15B parameters (2B active),
# 400B tokens. Sink rate: Zuhri et al., 340M parameters, 10k steps; Gu et al., 60M parameters, 5B tokens.
_QIU = "Qiu et al. 2025, arXiv:2505.06708"
_ZUHRI = "Zuhri et al. 2025, arXiv:2504.20966, Table 3"
_GU = "Gu et al. 2025, arXiv:2410.10781, Tables 4 and 6"
PUBLISHED = {
    "softmax": ("first-token mass 0.467; sink rate 34.89 %", f"{_QIU}; {_ZUHRI}"),
    "off_by_one": ("sink rate 16.36 %", _ZUHRI),
    "learned_logit": ("sink rate 8.78 %", _ZUHRI),
    "headwise_gate": ("first-token mass 0.073", _QIU),
    "elementwise_gate": ("first-token mass 0.048", _QIU),
    "value_gate": ("first-token mass 0.297", _QIU),
    "softpick": ("sink rate 0.00 %", _ZUHRI),
    "k_bias": ("sink rate of the first token 18.18 % → 0.00 %", _GU),
    "kv_bias": ("sink rate of the first token 18.18 % → 0.04 %", _GU),
    "sigmoid": ("sink rate 18.18 % → 0.44 %", _GU),
    "sigmoid_by_sum": ("sink rate 18.18 % → 30.24 %", _GU),
}

_SINKS = (
    ("bos_mass", "BOS mass", 3),
    ("bos_value_ratio", "BOS value norm ratio", 3),
    ("first_token_mass", "first-token mass", 3),
    ("sink_rate", "sink rate", 3),
    ("logit_mass", "logit mass", 3),
)
_COSTS = (
    ("loss", "loss (nats)", 4),
    ("bigram_loss", "bigram loss (nats)", 4),
    ("backcopy_loss", "backcopy loss (nats)", 4),
    ("activation_ratio", "largest / median activation", 1),
    ("gate_mean", "gate mean", 3),
    ("gate_under_0.1", "gates under 0.1", 3),
)
_MEANING = (
    "BOS mass: attention to BOS from queries t ≥ 8 that are no triggers; value norm ratio: norm of BOS's value over "
    "the mean norm for t ≥ 8; first-token mass: over all queries; sink rate: share of (sequence, layer, head) with "
    "mean attention to the first token above 0.3 (Gu et al. 2025, T = 64); logit mass: attention on the extra logit or row; "
    "of kernels whose weights do not sum to 1 all of these are shares of their sum"
)


def table(records: Sequence[Record]) -> Table:
    """Where the attention goes, arm by arm, beside what the papers report."""
    rows = tuple(
        (
            LABELS.get(arm, arm),
            *(cell(records, arm, name, digits) for name, _, digits in _SINKS),
            *PUBLISHED.get(arm, (MISSING, MISSING)),
        )
        for arm in arms(records, tuple(LABELS))
    )
    columns = ("attention", *(title for _, title, _ in _SINKS), "published", "source")
    return Table("Attention sinks of Bigram-Backcopy", STUDY, columns, rows, (*trained_notes(records), _MEANING))


def cost_table(records: Sequence[Record]) -> Table:
    """What the arms cost in loss, what they do to the activations, and how their gates stand."""
    rows = tuple(
        (LABELS.get(arm, arm), *(cell(records, arm, name, digits) for name, _, digits in _COSTS))
        for arm in arms(records, tuple(LABELS))
    )
    columns = ("attention", *(title for _, title, _ in _COSTS))
    return Table("Loss, activations and gates", f"{STUDY}_cost", columns, rows, trained_notes(records))
