"""Rows of the ledger that small language models can judge: sinks, places of gates, stability, depth.

"Removes" leaves at most a tenth of softmax's sink rate, "cuts" at most half of its first-token mass. Even causal attention over
T tokens gives the first one H_T / T, the mean of 1/t.
"""

from collections.abc import Callable, Sequence
from math import log

import numpy as np

from experiments.evidence import Claim, Evidence, Quantity, trained
from experiments.publish.summary import cell
from experiments.publish.table import cell_text
from experiments.record import Record
from experiments.studies import depth, gate_position, sinks_lm, stability
from tokenization.byte import ByteTokenizer

Judge = Callable[[Sequence[Record]], Evidence | None]
_GU = "Gu et al. 2025, arXiv:2410.10781"
_QIU = "Qiu et al. 2025, arXiv:2505.06708"
_ZUHRI = "Zuhri et al. 2025, arXiv:2504.20966, Table 3"
_GU_SCALE = "60M parameters, 5B tokens"
_QIU_SCALE = "15B parameters, 2B active, 400B tokens"
_ZUHRI_SCALE = "340M parameters, 10k steps"


def even(tokens: int) -> float:
    """First-token mass of even causal attention."""
    return float(np.mean(1 / np.arange(1, tokens + 1)))


def _more(first: Quantity, second: Quantity, digits: int = 3) -> Judge:
    """The first is larger."""
    return trained(lambda first, second: first - second, first, second, digits=digits)


def _removes(arm: str) -> Judge:
    return trained(lambda plain, other: 0.1 * plain - other, ("softmax", "sink_rate"), (arm, "sink_rate"))


def _cuts(arm: str) -> Judge:
    quantities = (("softmax", "first_token_mass"), (arm, "first_token_mass"))
    return trained(lambda plain, other: 0.5 * plain - other, *quantities)


def _remains(arm: str) -> Judge:
    """More than half of softmax's first-token mass is left."""
    quantities = (("softmax", "first_token_mass"), (arm, "first_token_mass"))
    return trained(lambda plain, other: other - 0.5 * plain, *quantities)


SINKS_LM = (
    Claim(
        "gu-first-token",
        "A fixed first token becomes a sink: it gets more than twice the mass of even causal attention",
        f"{_GU}, Table 10",
        "sink rate 74.11 % with a fixed first token",
        sinks_lm.STUDY,
        trained(lambda mass: mass - 2 * even(64), ("softmax", "first_token_mass")),
        _GU_SCALE,
    ),
    Claim(
        "gu-fixed",
        "With a fixed first token the sink rate is higher than without",
        f"{_GU}, Table 10",
        "sink rate 18.18 % → 74.11 %",
        sinks_lm.STUDY,
        _more(("softmax", "sink_rate"), ("absent", "sink_rate")),
        _GU_SCALE,
    ),
    Claim(
        "gu-decay",
        "Weight decay 0.5 gives a higher sink rate than 0.1",
        _GU,
        "sink rate 18.18 % → 41.08 %",
        sinks_lm.STUDY,
        _more(("softmax", "sink_rate"), ("decay_0.1", "sink_rate")),
        _GU_SCALE,
    ),
    Claim(
        "gu-rate",
        "Four times the learning rate (0.0025 to 0.01) gives a higher sink rate",
        f"{_GU}, Table 9",
        "sink rate 6.29 % → 18.18 %",
        sinks_lm.STUDY,
        _more(("softmax", "sink_rate"), ("rate_0.0025", "sink_rate")),
        _GU_SCALE,
    ),
    Claim(
        "barbero-context",
        "The sink rises with the training context: first-token mass over that of even attention, 256 tokens against 32",
        "Barbero et al. 2025, arXiv:2504.02732",
        "rises with the context, nearly absent at very short ones",
        sinks_lm.STUDY,
        trained(
            lambda long, short: long / even(64) - short / even(32),
            ("context_256", "first_token_mass"),
            ("context_32", "first_token_mass"),
        ),
        "120M parameters, 5B tokens",
    ),
    Claim(
        "gu-value",
        "The value of the first token is drained: its norm is below half of the others' mean",
        _GU,
        "much smaller values of the first token",
        sinks_lm.STUDY,
        trained(lambda ratio: 0.5 - ratio, ("softmax", "value_norm_ratio")),
        _GU_SCALE,
    ),
    Claim(
        "gu-cosine",
        "Queries have a larger cosine with the first key than with the others",
        _GU,
        "small keys, and a large cosine with queries",
        sinks_lm.STUDY,
        _more(("softmax", "key_cosine"), ("softmax", "key_cosine_others")),
        _GU_SCALE,
    ),
    Claim(
        "gu-subspace",
        "The first key has a subspace of its own: more than a tenth of its squared length is outside the directions that hold "
        "95 % of the others'",
        f"{_GU}, Table 13",
        "one learned channel of a K bias takes 32.18 % of the heads",
        sinks_lm.STUDY,
        trained(lambda share: share - 0.1, ("softmax", "key_outside")),
        _GU_SCALE,
    ),
    Claim(
        "gu-k-bias",
        "A K bias removes the sink of the first token: at most a tenth of softmax's sink rate is left",
        f"{_GU}, Table 4",
        "sink rate 18.18 % → 0.00 %",
        sinks_lm.STUDY,
        _removes("k_bias"),
        _GU_SCALE,
    ),
    Claim(
        "gu-sigmoid",
        "Sigmoid attention that is not normalised removes the sink",
        f"{_GU}, Table 6",
        "sink rate 18.18 % → 0.44 %",
        sinks_lm.STUDY,
        _removes("sigmoid"),
        _GU_SCALE,
    ),
    Claim(
        "zuhri-softpick-lm",
        "Softpick removes the sink",
        _ZUHRI,
        "sink rate 34.89 % → 0.00 %",
        sinks_lm.STUDY,
        _removes("softpick"),
        _ZUHRI_SCALE,
    ),
    Claim(
        "zuhri-logit-lm",
        "A learned softmax logit lowers the sink rate",
        _ZUHRI,
        "sink rate 34.89 % → 8.78 %",
        sinks_lm.STUDY,
        _more(("softmax", "sink_rate"), ("learned_logit", "sink_rate")),
        _ZUHRI_SCALE,
    ),
    Claim(
        "zuhri-logit-remains-lm",
        "It does not remove the sink: at least a tenth of softmax's sink rate is left",
        _ZUHRI,
        "8.78 % of 34.89 % left",
        sinks_lm.STUDY,
        trained(lambda plain, other: other - 0.1 * plain, ("softmax", "sink_rate"), ("learned_logit", "sink_rate")),
        _ZUHRI_SCALE,
    ),
    Claim(
        "gu-useless-value",
        "The value of the sink carries next to nothing: without it the loss rises by less than 0.01 nats",
        _GU,
        "a K bias with value 0 serves as well: loss 3.72, as with a K and V bias",
        sinks_lm.STUDY,
        trained(lambda change: 0.01 - change, ("softmax", "change_zero_value.loss"), digits=4),
        _GU_SCALE,
    ),
)

_PLACES = ("value_channel", "key_channel", "query_channel", "projection_channel")
GATE_POSITION = (
    Claim(
        "qiu-lm-cuts",
        "An elementwise gate on the output of attention leaves at most half of the first-token mass",
        _QIU,
        "first-token mass 0.467 → 0.048",
        gate_position.STUDY,
        _cuts("output_channel"),
        _QIU_SCALE,
    ),
    Claim(
        "qiu-lm-headwise",
        "So does a headwise one",
        _QIU,
        "first-token mass 0.467 → 0.073",
        gate_position.STUDY,
        _cuts("output_head"),
        _QIU_SCALE,
    ),
    Claim(
        "qiu-static",
        "A gate without input does not: more than half is left",
        _QIU,
        "an input-independent gate keeps the sink",
        gate_position.STUDY,
        _remains("output_static"),
        _QIU_SCALE,
    ),
    Claim(
        "qiu-restricted",
        "Nor does a gate between 1/2 and 1",
        _QIU,
        "a gate that cannot close keeps the sink",
        gate_position.STUDY,
        _remains("output_restricted"),
        _QIU_SCALE,
    ),
    Claim(
        "qiu-best-place",
        "Of elementwise gates the one on the output of attention has the lowest loss",
        _QIU,
        "perplexity 5.761 at the output, 5.820 values, 6.016 keys, 5.981 queries, 6.017 projection",
        gate_position.STUDY,
        trained(
            lambda own, *others: min(others) - own,
            ("output_channel", "loss"),
            *((arm, "loss") for arm in _PLACES),
        ),
        _QIU_SCALE,
    ),
    Claim(
        "qiu-lm-loss",
        "It has a lower loss than no gate",
        _QIU,
        "perplexity 6.026 → 5.761",
        gate_position.STUDY,
        _more(("softmax", "loss"), ("output_channel", "loss")),
        _QIU_SCALE,
    ),
    Claim(
        "qiu-sparse",
        "Its gates are sparse: their mean is below a quarter",
        _QIU,
        "gate mean 0.116",
        gate_position.STUDY,
        trained(lambda mean: 0.25 - mean, ("output_channel", "gate_mean")),
        _QIU_SCALE,
    ),
    Claim(
        "qiu-sparser",
        "They are sparser than gates on the values",
        _QIU,
        "gate mean 0.116 against 0.221",
        gate_position.STUDY,
        _more(("value_channel", "gate_mean"), ("output_channel", "gate_mean")),
        _QIU_SCALE,
    ),
    Claim(
        "qiu-lm-activations",
        "It lowers the largest activation over the median",
        _QIU,
        "largest activation 1053 → 94",
        gate_position.STUDY,
        _more(("softmax", "activation_ratio"), ("output_channel", "activation_ratio"), digits=1),
        _QIU_SCALE,
    ),
)


def _stable(other: str) -> Judge:
    """At the highest rate up to 8 times the plain model's best, the other has the lower loss; one that diverged has that of
    even guessing."""

    def evidence(records: Sequence[Record]) -> Evidence | None:
        best = stability.best(records)
        if best is None:
            return None
        # Rates are powers of two of each other up to rounding in print.
        rate = max((r for r in stability.rates(records) if float(r) <= 8.001 * float(best)), key=float)
        plain, own = (_losses(records, f"{name}{stability.SUFFIX}{rate}") for name in ("plain", other))
        shared = sorted(plain.keys() & own.keys())
        figures = f"best rate {best}; at {rate}: plain {_text(plain)}, {other} {_text(own)}"
        return Evidence(figures, tuple(plain[seed] - own[seed] for seed in shared), exact=False) if shared else None

    return evidence


def _losses(records: Sequence[Record], arm: str) -> dict[int, float]:
    found = {}
    for record in records:
        if record.arm == arm:
            loss = record.measurements["loss"].value if record.status == "finished" else None
            found[record.seed] = log(ByteTokenizer().vocabulary_size) if loss is None else loss
    return found


def _text(losses: dict[int, float]) -> str:
    return f"{np.mean(list(losses.values())):.3f}"


STABILITY = (
    Claim(
        "qiu-stable",
        "At up to 8 times the best learning rate an output gate has a lower loss than none",
        _QIU,
        "perplexity 7.325 where the baseline diverges (9.195), at twice its rate",
        stability.STUDY,
        _stable("gate"),
        "1.7B parameters, 48 layers",
    ),
    Claim(
        "qiu-sandwich",
        "So has a sandwich norm",
        _QIU,
        "perplexity 7.407 where the baseline diverges (9.195), at twice its rate",
        stability.STUDY,
        _stable("sandwich"),
        "1.7B parameters, 48 layers",
    ),
)


def _layers(name: str, margin: Callable[[Sequence[float]], float]) -> Judge:
    """A margin of one quantity over the layers of the plain model."""

    def evidence(records: Sequence[Record]) -> Evidence | None:
        names = [depth.by_layer(name, layer) for layer in depth.layers(records)]
        if len(names) < 3:
            return None
        figures = ", ".join(cell_text(cell(records, "softmax", own)) for own in names)
        found = trained(lambda *values: margin(values), *(("softmax", own) for own in names))(records)
        return found and Evidence(f"layers 1 to {len(names)}: {figures}", found.margins, exact=False)

    return evidence


DEPTH = (
    Claim(
        "gu-deeper",
        "Deeper layers have more of the sink: first-token mass of the later half of the layers against the earlier half",
        f"{_GU}; Xu 2026",
        "layers 0 and 1 never sink, blocks from the third to the last but one do",
        depth.STUDY,
        _layers("first_token_mass", lambda m: float(np.mean(m[len(m) // 2 :]) - np.mean(m[: len(m) // 2]))),
        _GU_SCALE,
    ),
    Claim(
        "gu-norm-peak",
        "The first token's residual norm is largest in the middle, above that behind the first and the last layer",
        _GU,
        "norm ratio peaks at 20 to 30 in mid-depth",
        depth.STUDY,
        _layers("residual_norm_ratio", lambda r: max(r[1:-1]) - max(r[0], r[-1])),
        _GU_SCALE,
    ),
    Claim(
        "early-decoding",
        "Every layer brings the decoded distribution nearer to the final one",
        "nostalgebraist 2020 (logit lens)",
        "predictions converge layer by layer",
        depth.STUDY,
        _layers("early_divergence", lambda kl: float(np.min(-np.diff(kl)))),
        "GPT-2, 124M parameters",
    ),
)
