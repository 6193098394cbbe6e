"""The ledger: published statements as data, each with the measurement that decides it.

A statement names its threshold. Where a paper gives none, the threshold is the weakest reading that still says
something: "cuts" is "at most half", "does not remove" is "leaves at least a tenth", "stays flat" is "rises by at most
5 %". Arms of one seed see the same batches, so margins between arms are paired by seed.
"""

from collections.abc import Sequence

from experiments.evidence import Claim, Verdict, judge, trained
from experiments.publish.table import MISSING, Table
from experiments.record import Record
from experiments.studies import extrapolation, rope_base, sinks
from experiments.studies.base_length_claims import BASE_VS_LENGTH
from experiments.studies.bound_evidence import printed_base, printed_infimum, threshold

_GUO = "Guo et al. 2024, arXiv:2410.13835"
_QIU = "Qiu et al. 2025, arXiv:2505.06708 (15A2B, 400B tokens)"
_ZUHRI = "Zuhri et al. 2025, arXiv:2504.20966, Table 3 (340M, 10k steps)"
_PRESS = "Press et al. 2022, arXiv:2108.12409"
_CHEN = "Chen et al. 2023, arXiv:2306.15595, section 3.2"
_PENG = "Peng et al. 2023, arXiv:2309.00071, Table 1 (Llama-2 7B fine-tuned to 8192)"
_YARN_19 = "jquesnelle/yarn issue 19"
_MEN = "Men et al. 2024, arXiv:2405.14591, Table 2"


def _perplexity(arm: str, extension: str, length: int, last64: bool = False) -> tuple[str, str]:
    return arm, f"perplexity{'_last64' if last64 else ''}.{extension}.{length}"


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

# Whole windows unless a statement says otherwise; the training length is 128: 256, 512, 1024 are 2, 4, 8 times it.
EXTRAPOLATION = (
    Claim(
        "press-rope",
        "RoPE's perplexity of the last 64 positions is at least twice as high at 8 times the training length as at it",
        _PRESS,
        "rotary perplexity degrades past the training length (Figure 1)",
        extrapolation.STUDY,
        trained(
            lambda near, far: far - 2 * near,
            _perplexity("rope", "none", 128, last64=True),
            _perplexity("rope", "none", 1024, last64=True),
            digits=2,
        ),
    ),
    Claim(
        "press-alibi-flat",
        "ALiBi's perplexity is at most 5 % higher at 8 times the training length than at it",
        _PRESS,
        "19.73 at 512 → 18.40 at 3072, trained at 512",
        extrapolation.STUDY,
        trained(
            lambda near, far: 1.05 - far / near,
            _perplexity("alibi", "none", 128),
            _perplexity("alibi", "none", 1024),
            digits=2,
        ),
    ),
    Claim(
        "press-alibi-rope",
        "At 8 times the training length ALiBi's perplexity is below RoPE's",
        _PRESS,
        "past the training length rotary degrades, ALiBi does not (Figure 1)",
        extrapolation.STUDY,
        trained(
            lambda rope, alibi: rope - alibi,
            _perplexity("rope", "none", 1024),
            _perplexity("alibi", "none", 1024),
            digits=2,
        ),
    ),
    Claim(
        "chen-pi",
        "At 4 times the training length, without fine-tuning, PI's perplexity is below unscaled RoPE's",
        _CHEN,
        "below 20 against above 1000 (LLaMA 7B, 2048 → 8192)",
        extrapolation.STUDY,
        trained(lambda none, pi: none - pi, _perplexity("rope", "none", 512), _perplexity("rope", "pi", 512), digits=2),
    ),
    Claim(
        "bloc97-ntk",
        "At 8 times the training length, without fine-tuning, NTK-aware scaling's perplexity is below unscaled RoPE's",
        "bloc97 2023, NTK-aware scaled RoPE; Peng et al. 2023, arXiv:2309.00071",
        "longer contexts without fine-tuning at little perplexity",
        extrapolation.STUDY,
        trained(lambda none, ntk: none - ntk, _perplexity("rope", "none", 1024), _perplexity("rope", "ntk", 1024), digits=2),
    ),
    Claim(
        "yarn-pi",
        "At 8 times the training length, without fine-tuning, YaRN's perplexity is below PI's",
        _PENG,
        "6.04 against 8.07 at 10240",
        extrapolation.STUDY,
        trained(lambda pi, yarn: pi - yarn, _perplexity("rope", "pi", 1024), _perplexity("rope", "yarn", 1024), digits=2),
    ),
    Claim(
        "yarn-ntk-far",
        "At 8 times the training length, without fine-tuning, YaRN's perplexity is below NTK-aware scaling's",
        f"{_YARN_19}; {_PENG}",
        "YaRN better in longer windows; 6.04 against 6.24 at 10240",
        extrapolation.STUDY,
        trained(lambda ntk, yarn: ntk - yarn, _perplexity("rope", "ntk", 1024), _perplexity("rope", "yarn", 1024), digits=2),
    ),
    Claim(
        "yarn-ntk-near",
        "At twice the training length, without fine-tuning, NTK-aware scaling's perplexity is below YaRN's",
        _YARN_19,
        "NTK-aware better in shorter windows",
        extrapolation.STUDY,
        trained(lambda ntk, yarn: yarn - ntk, _perplexity("rope", "ntk", 256), _perplexity("rope", "yarn", 256), digits=2),
    ),
)


ROPE_BASE = (
    Claim(
        "men-4k",
        "The base printed for a context of 4k, 2.7e4, keeps B_m non-negative at every distance below it",
        _MEN,
        "2.7e4",
        rope_base.STUDY,
        printed_base("4k", "Men"),
    ),
    Claim(
        "men-8k",
        "The base printed for a context of 8k, 8.4e4, keeps B_m non-negative at every distance below it",
        _MEN,
        "8.4e4",
        rope_base.STUDY,
        printed_base("8k", "Men"),
    ),
    Claim(
        "men-2k-smallest",
        "The base printed for a context of 2k, 1.6e4, is the smallest that meets the condition, to its two digits",
        _MEN,
        "1.6e4",
        rope_base.STUDY,
        printed_infimum("2k", "Men"),
    ),
    Claim(
        "su-2k-smallest",
        "The base printed for a context of 2k, 1.2e4, is the smallest that meets the condition, to its two digits",
        "Su 2024, kexue.fm/archives/10122",
        "1.2e4",
        rope_base.STUDY,
        printed_infimum("2k", "Su"),
    ),
    Claim(
        "men-threshold",
        "The lower bound is a threshold: every base above the smallest one meets the condition",
        "Men et al. 2024, arXiv:2405.14591 (a lower bound for the base)",
        "one bound a context length",
        rope_base.STUDY,
        threshold,
    ),
)

LEDGER: tuple[Claim, ...] = (*SINKS, *EXTRAPOLATION, *ROPE_BASE, *BASE_VS_LENGTH)


def verdicts(records: Sequence[Record], ledger: Sequence[Claim] = LEDGER) -> list[Verdict]:
    """The verdict on every claim of a ledger, in its order."""
    return [judge(claim, records) for claim in ledger]


def verdicts_table(judged: Sequence[Verdict]) -> Table:
    """The ledger at a glance: what was said, what was measured, and whether it holds here."""
    rows = tuple((row.statement, row.published, row.measured or MISSING, row.verdict) for row in judged)
    return Table("Verdicts", "verdicts", ("published claim", "published", "measured here", "verdict"), rows, ())


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
