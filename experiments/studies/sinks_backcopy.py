"""Every mechanism on Bigram-Backcopy, with BOS before each sequence and without."""

from collections.abc import Sequence

from experiments.publish.summary import arms, cell, trained_notes
from experiments.publish.table import MISSING, Table
from experiments.record import Record
from experiments.studies import sinks

STUDY = "sinks_backcopy"
QUESTION = "What does each mechanism do to the sink of Bigram-Backcopy, with BOS and without?"
WITH, WITHOUT = "_bos=fixed", "_bos=absent"

LABELS = {
    **sinks.LABELS,
    "learned_logit_fast": "learned logit, rate × 10",
    "k_bias_8": "K bias, 8 of 64 channels",
    "k_bias_1": "K bias, 1 of 64 channels",
    "sgd": "softmax, SGD",
    "muon": "softmax, Muon",
}
LAYERS = {
    "three_layers": "softmax, AdamW",
    "three_layers_relu": "ReLU / keys, AdamW",
    "three_layers_sgd": "softmax, SGD",
}
_GUO = "Guo et al. 2024, arXiv:2410.13835"
_GU = "Gu et al. 2025, arXiv:2410.10781, Table 13"
PUBLISHED = {
    **sinks.PUBLISHED,
    "relu_by_keys": ("no sink, no value drain", _GUO),
    "k_bias_8": ("sink rate of the bias 31.39 %, of the first token 4.54 %", _GU),
    "k_bias_1": ("sink rate of the bias 32.18 %, of the first token 4.74 %", _GU),
}

_COLUMNS = (
    ("bos_mass", "first-token mass at rest", 3),
    ("sink_rate", "sink rate", 3),
    ("logit_mass", "mass on the bias", 3),
    ("bos_value_ratio", "value norm ratio", 3),
    ("logit_gap", "Δ logit", 2),
    ("key_outside", "key outside", 3),
    ("loss", "loss (nats)", 4),
)
_MEANING = (
    "first-token mass at rest: attention to the first token from queries t ≥ 8 that are no triggers; sink rate: share of "
    "(sequence, head) with mean attention to it above 0.3; mass on the bias: on the extra logit or row; value norm ratio: norm "
    "of the first value over the mean for t ≥ 8; Δ logit: the first token's logit less the mean of those between it and the "
    "query; key outside: share of the first key's squared length outside the directions that hold 95 % of the other keys'"
)
_CHANGES = (
    ("change_forced.bigram_loss", "all on the first, bigram", 4),
    ("change_forced.backcopy_loss", "all on the first, backcopy", 3),
    ("change_zero_value.bigram_loss", "its value 0, bigram", 4),
    ("change_mean_value.bigram_loss", "its value the mean, bigram", 4),
    ("change_hidden1.loss", "it is hidden, all", 4),
)


def of_bos(records: Sequence[Record], suffix: str) -> list[Record]:
    """The records of the arms with BOS, or of those without, under the names of their mechanisms."""
    chosen = [record for record in records if record.arm.endswith(suffix)]
    return [record.model_copy(update={"arm": record.arm.removesuffix(suffix)}) for record in chosen]


def table(records: Sequence[Record]) -> Table:
    """Where the attention of each mechanism goes with BOS, beside what was published."""
    return _table(of_bos(records, WITH), "Bigram-Backcopy with BOS", STUDY, published=True)


def without_table(records: Sequence[Record]) -> Table:
    """The same where sequences begin with an ordinary token."""
    return _table(of_bos(records, WITHOUT), "Bigram-Backcopy without BOS", f"{STUDY}_without", published=False)


def _table(records: Sequence[Record], title: str, name: str, *, published: bool) -> Table:
    rows = tuple(
        (
            LABELS.get(arm, arm),
            *(cell(records, arm, quantity, digits) for quantity, _, digits in _COLUMNS),
            *(PUBLISHED.get(arm, (MISSING, MISSING)) if published else ()),
        )
        for arm in arms(records, tuple(LABELS))
    )
    columns = ("attention", *(heading for _, heading, _ in _COLUMNS), *(("published", "source") if published else ()))
    return Table(title, name, columns, rows, (*trained_notes(records), _MEANING) if rows else ())


def changes_table(records: Sequence[Record]) -> Table:
    """What the loss of trained models gains when the sink is taken away, or all that a head has."""
    own = of_bos(records, WITH)
    rows = tuple(
        (LABELS.get(arm, arm), *(cell(own, arm, quantity, digits) for quantity, _, digits in _CHANGES))
        for arm in arms(own, tuple(LABELS))
    )
    meaning = (
        "nats that the loss gains, with BOS: all attention on the first token; its value set to zero, or to the mean of the "
        "others; the token hidden from all others. A head that rests on the first token loses nothing where it rests"
    )
    columns = ("attention", *(heading for _, heading, _ in _CHANGES))
    return Table("Interventions on trained models", f"{STUDY}_changes", columns, rows, (meaning,) if rows else ())


def layers_table(records: Sequence[Record]) -> Table:
    """Three layers: the triad of Guo et al. under softmax and Adam, and without either."""
    own = [record for record in records if record.arm in LAYERS]
    quantities = (
        ("bos_mass", "first-token mass at rest", 3),
        ("bos_value_ratio", "value norm ratio", 3),
        ("residual_norm_ratio", "residual peak", 2),
        ("activation_ratio", "largest / median activation", 1),
        ("loss", "loss (nats)", 4),
    )
    rows = tuple(
        (LAYERS[arm], *(cell(own, arm, name, digits) for name, _, digits in quantities)) for arm in arms(own, tuple(LAYERS))
    )
    meaning = "residual peak: norm of BOS behind a layer over the mean norm for t ≥ 8, of the layer in which it is largest"
    columns = ("three layers", *(heading for _, heading, _ in quantities))
    return Table(
        "Residual peak in three layers", f"{STUDY}_layers", columns, rows, (*trained_notes(own), meaning) if rows else ()
    )
