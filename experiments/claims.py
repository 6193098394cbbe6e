"""The ledger: published statements as data, each with the measurement that decides it.

A statement names its threshold. Where a paper gives none, the threshold is the weakest reading that still says
something: "cuts" is "at most half", "does not remove" is "leaves at least a tenth", "stays flat" is "rises by at most
5 %". Arms of one seed see the same batches, so margins between arms are paired by seed.
"""

from collections import Counter
from collections.abc import Sequence

from experiments.evidence import OUTCOMES, Claim, Verdict, judge, trained
from experiments.publish.table import MISSING, Table
from experiments.record import Record
from experiments.studies import sinks
from experiments.studies.anatomy_claims import DEPTH, GATE_POSITION, SINKS_LM, STABILITY
from experiments.studies.backcopy_claims import BACKCOPY
from experiments.studies.base_length_claims import BASE_VS_LENGTH
from experiments.studies.extrapolation_claims import ENCODINGS, EXTRAPOLATION
from experiments.studies.multilingual import MULTILINGUAL
from experiments.studies.precision import PRECISION
from experiments.studies.retrieval_claims import RETRIEVAL
from experiments.studies.rope_base_claims import ROPE_BASE
from experiments.studies.streaming_claims import STREAMING
from experiments.studies.tokens_claims import TOKENS
from experiments.studies.vocabulary import VOCABULARY

_GUO = "Guo et al. 2024, arXiv:2410.13835"
_QIU = "Qiu et al. 2025, arXiv:2505.06708 (15A2B, 400B tokens)"
_ZUHRI = "Zuhri et al. 2025, arXiv:2504.20966, Table 3 (340M, 10k steps)"


SINKS = (
    Claim(
        "guo-sink",
        "Under softmax, queries that are no triggers put more than half of their attention on BOS (bos_mass > 0.5)",
        _GUO,
        "an attention sink on BOS, dormant except on triggers",
        sinks.STUDY,
        trained(lambda mass: mass - 0.5, ("softmax", "bos_mass")),
    ),
    Claim(
        "guo-value-drain",
        "Softmax attention drains the value of BOS below half of the mean value norm (bos_value_ratio < 0.5)",
        _GUO,
        "value-state drain of BOS",
        sinks.STUDY,
        trained(lambda ratio: 0.5 - ratio, ("softmax", "bos_value_ratio")),
    ),
    Claim(
        "qiu-headwise",
        "A headwise output gate leaves at most half of softmax's attention on the first token (first_token_mass)",
        _QIU,
        "first-token mass 0.467 → 0.073",
        sinks.STUDY,
        trained(
            lambda softmax, gated: 0.5 * softmax - gated,
            ("softmax", "first_token_mass"),
            ("headwise_gate", "first_token_mass"),
        ),
    ),
    Claim(
        "qiu-elementwise",
        "An elementwise output gate leaves at most half of softmax's attention on the first token (first_token_mass)",
        _QIU,
        "first-token mass 0.467 → 0.048",
        sinks.STUDY,
        trained(
            lambda softmax, gated: 0.5 * softmax - gated,
            ("softmax", "first_token_mass"),
            ("elementwise_gate", "first_token_mass"),
        ),
    ),
    Claim(
        "qiu-value-gate",
        "The same elementwise gate leaves more attention on the first token at the values than at the output",
        _QIU,
        "first-token mass 0.297 at the values, 0.048 at the output",
        sinks.STUDY,
        trained(
            lambda at_values, at_output: at_values - at_output,
            ("value_gate", "first_token_mass"),
            ("elementwise_gate", "first_token_mass"),
        ),
    ),
    Claim(
        "qiu-activations",
        "A headwise output gate lowers the largest activation over the median (activation_ratio)",
        _QIU,
        "largest activation 1053 → 98",
        sinks.STUDY,
        trained(
            lambda softmax, gated: softmax - gated,
            ("softmax", "activation_ratio"),
            ("headwise_gate", "activation_ratio"),
            digits=1,
        ),
    ),
    Claim(
        "qiu-loss",
        "A headwise output gate lowers the loss",
        _QIU,
        "perplexity 6.026 → 5.792",
        sinks.STUDY,
        trained(lambda softmax, gated: softmax - gated, ("softmax", "loss"), ("headwise_gate", "loss"), digits=4),
    ),
    Claim(
        "zuhri-off-by-one-reduces",
        "Softmax off by one lowers the sink rate (threshold 0.3)",
        _ZUHRI,
        "sink rate 34.89 % → 16.36 %",
        sinks.STUDY,
        trained(lambda softmax, other: softmax - other, ("softmax", "sink_rate"), ("off_by_one", "sink_rate")),
    ),
    Claim(
        "zuhri-off-by-one-remains",
        "Softmax off by one does not remove the sink: at least a tenth of softmax's sink rate is left",
        _ZUHRI,
        "16.36 % of 34.89 % left",
        sinks.STUDY,
        trained(
            lambda softmax, other: other - 0.1 * softmax,
            ("softmax", "sink_rate"),
            ("off_by_one", "sink_rate"),
        ),
    ),
    Claim(
        "zuhri-logit-reduces",
        "A learned softmax logit lowers the sink rate (threshold 0.3)",
        _ZUHRI,
        "sink rate 34.89 % → 8.78 %",
        sinks.STUDY,
        trained(lambda softmax, other: softmax - other, ("softmax", "sink_rate"), ("learned_logit", "sink_rate")),
    ),
    Claim(
        "zuhri-logit-remains",
        "A learned softmax logit does not remove the sink: at least a tenth of softmax's sink rate is left",
        _ZUHRI,
        "8.78 % of 34.89 % left",
        sinks.STUDY,
        trained(
            lambda softmax, other: other - 0.1 * softmax,
            ("softmax", "sink_rate"),
            ("learned_logit", "sink_rate"),
        ),
    ),
)

LEDGER: tuple[Claim, ...] = (
    *SINKS,
    *EXTRAPOLATION,
    *ENCODINGS,
    *BASE_VS_LENGTH,
    *RETRIEVAL,
    *ROPE_BASE,
    *PRECISION,
    *STREAMING,
    *BACKCOPY,
    *SINKS_LM,
    *GATE_POSITION,
    *STABILITY,
    *DEPTH,
    *TOKENS,
    *VOCABULARY,
    *MULTILINGUAL,
)


def verdicts(records: Sequence[Record], ledger: Sequence[Claim] = LEDGER) -> list[Verdict]:
    """The verdict on every claim of a ledger, in its order."""
    return [judge(claim, records) for claim in ledger]


def verdicts_table(judged: Sequence[Verdict]) -> Table:
    """The ledger at a glance: what was said, what was measured, whether it holds here; what no record speaks of is counted."""
    measured = [row for row in judged if row.verdict != "not measured"]
    rows = tuple((row.statement, row.published, row.measured, row.verdict) for row in measured)
    left = len(judged) - len(measured)
    notes = (f"{left} more claims of the ledger have no records here",) if left else ()
    return Table("Verdicts", "verdicts", ("published claim", "published", "measured here", "verdict"), rows, notes)


def ledger_table(judged: Sequence[Verdict]) -> Table:
    """How many claims of each study hold, fail and are mixed."""
    names = list(dict.fromkeys(verdict.study for verdict in judged))
    counts = Counter((verdict.study, verdict.verdict) for verdict in judged)
    rows = [(name, *(str(counts[name, outcome]) for outcome in OUTCOMES)) for name in names]
    totals = Counter(verdict.verdict for verdict in judged)
    rows.append(("all", *(str(totals[outcome]) for outcome in OUTCOMES)))
    return Table("Published claims by study", "ledger", ("study", *OUTCOMES), tuple(rows))


def claims_table(judged: Sequence[Verdict]) -> Table:
    """The ledger as a table, for Markdown, CSV and LaTeX."""
    rows = tuple(
        (
            verdict.id,
            verdict.statement,
            f"{verdict.published} ({verdict.source})",
            verdict.measured or MISSING,
            verdict.verdict,
            verdict.reason,
            str(verdict.n),
            verdict.scale or MISSING,
        )
        for verdict in judged
    )
    columns = ("claim", "statement", "published", "measured", "verdict", "why", "n", "scale")
    rule = (
        "a claim holds (fails) where the 95 % t-interval of the mean margin over seeds lies above (below) 0, and is "
        "mixed where it does not; an exact claim is decided by its sign"
    )
    return Table("Published claims and their verdicts", "claims", columns, rows, (rule,))
