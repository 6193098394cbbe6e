"""What gives a small language model an attention sink, what removes it, and what the sink is good for."""

from collections.abc import Sequence

from experiments.publish.summary import arms, cell, trained_notes
from experiments.publish.table import MISSING, Table
from experiments.record import Record

STUDY = "sinks_lm"
QUESTION = (
    "Which first tokens, biases, kernels, norms, optimisers, rates, decays and lengths give a small language model a sink, and "
    "what is it good for?"
)

LABELS = {
    "softmax": "softmax, BOS first",
    "random": "softmax, a random token first",
    "absent": "softmax, nothing fixed first",
    "off_by_one": "softmax off by one",
    "learned_logit": "learned logit",
    "k_bias": "K bias",
    "headwise_gate": "output gate, headwise",
    "softpick": "softpick",
    "sigmoid": "sigmoid",
    "post_norm": "softmax, post-norm",
    "muon": "softmax, Muon",
    "decay_0": "weight decay 0",
    "decay_0.1": "weight decay 0.1",
    "decay_1": "weight decay 1",
    "rate_0.0025": "learning rate 0.0025",
    "rate_0.005": "learning rate 0.005",
    "rate_0.02": "learning rate 0.02",
    "context_32": "trained at 32 tokens",
    "context_64": "trained at 64 tokens",
    "context_256": "trained at 256 tokens",
}

# Sink rate (threshold 0.3, 64 tokens) of models of 60M parameters, 5B tokens; and of 340M, 10k steps.
_GU = "Gu et al. 2025, arXiv:2410.10781"
_ZUHRI = "Zuhri et al. 2025, arXiv:2504.20966, Table 3"
PUBLISHED = {
    "softmax": ("sink rate 74.11 %", f"{_GU}, Table 10"),
    "random": ("sink rate 27.03 %", f"{_GU}, Table 10"),
    "absent": ("sink rate 18.18 %", f"{_GU}, Table 10"),
    "off_by_one": ("sink rate 34.89 % → 16.36 %", _ZUHRI),
    "learned_logit": ("sink rate 34.89 % → 8.78 %", _ZUHRI),
    "k_bias": ("sink rate 18.18 % → 0.00 %", f"{_GU}, Table 4"),
    "headwise_gate": ("first-token mass 0.467 → 0.073", "Qiu et al. 2025, arXiv:2505.06708"),
    "softpick": ("sink rate 34.89 % → 0.00 %", _ZUHRI),
    "sigmoid": ("sink rate 18.18 % → 0.44 %", f"{_GU}, Table 6"),
    "post_norm": ("sink rate 18.18 % → 13.54 %", _GU),
    "decay_0": ("sink rate 15.20 %, of 41.08 % at 0.5", _GU),
    "decay_0.1": ("sink rate 18.18 %, of 41.08 % at 0.5", _GU),
    "decay_1": ("sink rate 37.71 %, of 41.08 % at 0.5", _GU),
    "rate_0.0025": ("sink rate 6.29 %, a quarter of the rate of 18.18 %", _GU),
    "rate_0.005": ("sink rate 11.21 %, half of the rate of 18.18 %", _GU),
    "rate_0.02": ("sink rate 32.23 %, twice the rate of 18.18 %", _GU),
    "context_32": ("nearly absent at very short context", "Barbero et al. 2025, arXiv:2504.02732"),
}

_SINKS = (
    ("sink_rate", "sink rate", 3),
    ("first_token_mass", "first-token mass", 3),
    ("logit_mass", "mass on the bias", 3),
    ("value_norm_ratio", "value norm ratio", 3),
    ("residual_norm_ratio", "residual peak", 2),
    ("activation_ratio", "largest / median activation", 1),
    ("loss", "loss (nats)", 3),
)
_ANATOMY = (
    ("change_zero_value.loss", "value 0", 4),
    ("change_mean_value.loss", "value the mean", 4),
    ("change_forced.loss", "all on the first", 3),
    ("change_hidden1.loss", "first hidden", 4),
    ("change_hidden4.loss", "first 4 hidden", 4),
    ("key_cosine", "cosine, first key", 3),
    ("key_cosine_others", "cosine, others", 3),
    ("key_norm_ratio", "key norm ratio", 3),
    ("key_outside", "key outside", 3),
    ("dormant_code", "dormant on code", 3),
    ("dormant_prose", "dormant on prose", 3),
    ("dormant_in_one", "dormant on one", 3),
)


def table(records: Sequence[Record]) -> Table:
    """The sink of every arm, beside what was published."""
    rows = tuple(
        (LABELS.get(arm, arm), *(cell(records, arm, *_args(one)) for one in _SINKS), *PUBLISHED.get(arm, (MISSING, MISSING)))
        for arm in arms(records, tuple(LABELS))
    )
    columns = ("arm", *(heading for _, heading, _ in _SINKS), "published", "source")
    meaning = (
        "sink rate and first-token mass: of held-out windows of 64 tokens (32 where trained at 32), threshold 0.3; even causal "
        "attention gives the first token 0.074 of 64 (0.127 of 32); ratios: norm of the first token's over the mean of those "
        "from position 8 on; residual peak: of the layer in which it is largest"
    )
    return Table("Attention sinks of small language models", STUDY, columns, rows, (*trained_notes(records), meaning))


def anatomy_table(records: Sequence[Record]) -> Table:
    """What the loss gains without the sink, and how the first token's keys stand to queries and other keys."""
    rows = tuple(
        (LABELS.get(arm, arm), *(cell(records, arm, *_args(one)) for one in _ANATOMY)) for arm in arms(records, tuple(LABELS))
    )
    columns = ("arm", *(heading for _, heading, _ in _ANATOMY))
    meaning = (
        "nats that the loss gains: the first value 0 or the mean of the others, all attention on the first token, the first "
        "tokens hidden from all others; key outside: share of the first key's squared length outside the directions that hold "
        "95 % of the other keys'; dormant: share of heads that give the first token more than 0.3, on held-out code, on "
        "prose, and on one of them alone"
    )
    return Table("Anatomy of the sink", f"{STUDY}_anatomy", columns, rows, (meaning,) if rows else ())


def _args(one: tuple[str, str, int]) -> tuple[str, int]:
    return one[0], one[2]
