"""Rows of the ledger that a stream through a bounded cache can judge.

Perplexities are those of the whole stream, 8192 times the training length, or of the tokens that were re-computed where
re-computation is compared. "Collapses" is at least twice the perplexity with four kept tokens: the paper's own collapses range
from 1.5 times (160M parameters) to 350 times (Llama-2 7B). "Restores" is within 5 %.
"""

from collections.abc import Callable, Sequence
from math import log

from experiments.evidence import Claim, Evidence, Quantity, trained
from experiments.record import Record
from experiments.studies.streaming import RECOMPUTED, SAMPLED, STUDY, WHOLE

Judge = Callable[[Sequence[Record]], Evidence | None]
_XIAO = "Xiao et al. 2024, arXiv:2309.17453"
_TABLE_3 = f"{_XIAO}, Table 3 (160M parameters)"
_TABLE_2 = f"{_XIAO}, Table 2 (Llama-2 7B, cache 4096, PG19)"


def _whole(arm: str, way: str) -> Quantity:
    return arm, f"{WHOLE}.{way}"


def _sampled(arm: str, way: str) -> Quantity:
    return arm, f"{SAMPLED}.{way}"


def _at_least(ratio: float, low: Quantity, high: Quantity) -> Judge:
    """The second perplexity is at least `ratio` times the first."""
    return trained(lambda low, high: high / low - ratio, low, high)


def _at_most(ratio: float, low: Quantity, high: Quantity) -> Judge:
    return trained(lambda low, high: ratio - high / low, low, high)


def _recovers(share: float, arm: str) -> Judge:
    """One kept token takes more than that share of the way from none to four, in nats."""
    return trained(
        lambda none, one, four: log(none / one) - share * log(none / four),
        *(_whole(arm, way) for way in ("kept0", "kept1", "kept4")),
    )


def _misses_less(arm: str) -> Judge:
    """Without kept tokens its loss gains less, in nats over four kept, than that of the plain model of texts with BOS."""
    return trained(
        lambda plain, none, own, own_none: log(none / plain) - log(own_none / own),
        *(_whole(one, way) for one in ("bos", arm) for way in ("kept4", "kept0")),
    )


STREAMING = (
    Claim(
        "xiao-window",
        "Without initial tokens window attention collapses: at least twice the perplexity of a stream with four kept tokens",
        _TABLE_2,
        "3359.95 against 9.59",
        STUDY,
        _at_least(2.0, _whole("rope", "kept4"), _whole("rope", "kept0")),
        "7B parameters; 1.5 times at 160M",
    ),
    Claim(
        "xiao-window-sink-token",
        "The same with a token that every training text begins with: without it at least twice the perplexity with four kept",
        _TABLE_3,
        "1235 against 18.02 with a sink token, 27.87 against 18.05 without",
        STUDY,
        _at_least(2.0, _whole("bos", "kept4"), _whole("bos", "kept0")),
        "160M parameters, 1024 tokens",
    ),
    Claim(
        "xiao-four",
        "Four initial tokens restore the perplexity of a sliding window with re-computation: at most 5 % above it",
        f"{_XIAO}, section 4.1",
        "5.40 against 5158 without (Llama-2 13B); on a par with re-computation",
        STUDY,
        _at_most(1.05, _sampled("rope", RECOMPUTED), _sampled("rope", "kept4")),
    ),
    Claim(
        "xiao-four-sink-token",
        "The same with a token that every training text begins with, which the re-computed windows begin with too",
        f"{_XIAO}, section 4.1",
        "on a par with re-computation",
        STUDY,
        _at_most(1.05, _sampled("bos", RECOMPUTED), _sampled("bos", "kept4")),
    ),
    Claim(
        "xiao-one",
        "One initial token recovers most: more than half of the difference in loss between none and four",
        _TABLE_2,
        "0, 1, 2, 4 kept: 3359.95, 11.88, 10.51, 9.59",
        STUDY,
        _recovers(0.5, "rope"),
        "160M parameters, 1024 tokens",
    ),
    Claim(
        "xiao-one-sink-token",
        "Trained with a token that every text begins with, one token is enough: at most 1 % above the perplexity with four",
        _TABLE_3,
        "18.01 with one, 18.02 with four",
        STUDY,
        _at_most(1.01, _whole("bos", "kept4"), _whole("bos", "kept1")),
    ),
    Claim(
        "xiao-positions",
        "Positions have to be those inside the cache: with those of the text perplexity with four kept is 5 % higher or more",
        f"{_XIAO}, section 3.2; sglang issue 12504",
        "positions within the cache are crucial; repeated text past 8k where they are not",
        STUDY,
        _at_least(1.05, _whole("bos", "kept4"), _whole("bos", "kept4_in_text")),
    ),
    Claim(
        "xiao-no-longer-context",
        "The context is not extended: the perplexity with four kept tokens is at most 5 % below that of re-computed windows",
        f"{_XIAO}, FAQ of mit-han-lab/streaming-llm",
        "the context window remains that of training",
        STUDY,
        _at_least(0.95, _sampled("bos", RECOMPUTED), _sampled("bos", "kept4")),
    ),
    Claim(
        "logit-needs-none",
        "With a learned softmax logit a stream misses first tokens less: without any its loss gains less over four kept than a "
        "plain model's",
        "OpenAI 2025, arXiv:2508.10925 (gpt-oss)",
        "no figure: a head can attend to nothing; a logit of 0 did not do: 29214 against 18.01 (Xiao et al. 2024, Table 3)",
        STUDY,
        _misses_less("bos_logit"),
    ),
    Claim(
        "gate-needs-none",
        "So does a stream with a headwise output gate",
        "Qiu et al. 2025, arXiv:2505.06708",
        "no figure of streams; gated attention is free of sinks: first-token mass 0.467 → 0.073",
        STUDY,
        _misses_less("bos_gate"),
    ),
)
