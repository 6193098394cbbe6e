"""Rows of the ledger that counts of tokens can judge: exact, for nothing is drawn; but for speed, which has rounds.

A published ratio "is" what is measured where the two are within a tenth of each other.
"""

from collections.abc import Callable, Sequence
from statistics import mean

from experiments.evidence import Claim, Evidence
from experiments.publish.summary import values
from experiments.record import Record
from experiments.studies.tokens import LANGUAGES, STUDY, relative_cost, speeds
from experiments.studies.tokens_wordpiece import more_likely

Judge = Callable[[Sequence[Record]], Evidence | None]
NEAR = 0.1
GPT_4, GPT_2, BYTE = "gpt4", "gpt2", "byte"
_REPEATED = "repeated of cl100k_base (GPT-4) without a stated text"


def _within(tokenizer: str, language: str, low: float, high: float) -> Judge:
    """The relative cost lies within the two; the margin is the distance to the nearer one."""

    def evidence(records: Sequence[Record]) -> Evidence | None:
        found = relative_cost(records, tokenizer, language)
        return None if found is None else Evidence(f"{found:.2f}", (min(found - low, high - found),), exact=True)

    return evidence


def _near(language: str, ratio: float) -> Claim:
    return Claim(
        f"tokens-{language}",
        f"{LANGUAGES[language]} takes {ratio} times the tokens of English in GPT-4's vocabulary, to a tenth",
        _REPEATED,
        f"{ratio}",
        STUDY,
        _within(GPT_4, language, ratio * (1 - NEAR), ratio * (1 + NEAR)),
    )


def _fewer(language: str, factor: float) -> Judge:
    """GPT-2's vocabulary takes at least that many times as many tokens as GPT-4's."""

    def evidence(records: Sequence[Record]) -> Evidence | None:
        small, large = (values(records, name, f"tokens.{language}") for name in (GPT_2, GPT_4))
        if not small or not large:
            return None
        return Evidence(f"{small[0] / large[0]:.2f} times", (small[0] / large[0] - factor,), exact=True)

    return evidence


def _grouped(records: Sequence[Record]) -> Evidence | None:
    plain, grouped = (values(records, GPT_4, f"probe.{name}") for name in ("12345678", "12,345,678"))
    if not plain or not grouped:
        return None
    return Evidence(f"{plain[0]:.0f} and {grouped[0]:.0f} tokens", (grouped[0] - plain[0] - 1,), exact=True)


def _no_unknown(records: Sequence[Record]) -> Evidence | None:
    shares = [
        measurement.value
        for record in records
        if record.arm in (GPT_2, GPT_4, BYTE)
        for name, measurement in record.measurements.items()
        if name.startswith("unknown.") and measurement.value is not None
    ]
    return Evidence(f"at most {max(shares):.3f} in {len(shares)} texts", (-max(shares),), exact=True) if shares else None


def _speed(records: Sequence[Record]) -> Evidence | None:
    """How many times as fast the library is as Python; the margin of a round is the distance to the nearer end of 3 to 6."""
    rounds = [speeds(records, GPT_4, way) for way in ("tiktoken", "python", "python_kept")]
    if not all(rounds):
        return None
    plain, kept = ([own / other for own, other in zip(rounds[0], others, strict=True)] for others in rounds[1:])
    figures = f"{mean(plain):.1f} times Python, {mean(kept):.1f} times Python that keeps words"
    return Evidence(figures, tuple(min(ratio - 3, 6 - ratio) for ratio in kept), exact=False)


TOKENS = (
    *(_near(language, ratio) for language, ratio in (("spa", 1.2), ("cmn_hans", 1.5), ("jpn", 1.8), ("mya", 4.0))),
    Claim(
        "tokens-kor",
        "Korean takes 1.5 to 2.5 times the tokens of English in GPT-4's vocabulary",
        _REPEATED,
        "1.5 to 2.5",
        STUDY,
        _within(GPT_4, "kor", 1.5, 2.5),
    ),
    Claim(
        "tokens-larger-vocabulary",
        "A larger vocabulary helps Chinese about threefold: GPT-2's takes at least 2.7 times as many tokens as GPT-4's",
        "repeated of vocabularies of 50k and 100k without a stated text",
        "about 3 times",
        STUDY,
        _fewer("cmn_hans", 2.7),
    ),
    Claim(
        "tokens-digits",
        "Separators cost tokens: 12,345,678 takes more than 12345678",
        "repeated of cl100k_base (GPT-4)",
        "more tokens with separators",
        STUDY,
        _grouped,
    ),
    Claim(
        "tokens-speed",
        "tiktoken is 3 to 6 times as fast as Python that keeps the words it has seen",
        "tiktoken's README, of a comparable open source tokenizer",
        "3 to 6 times",
        STUDY,
        _speed,
    ),
    Claim(
        "tokens-wordpiece-likelihood",
        "Pieces joined by likelihood make the training text, as independent pieces, more likely than as many by frequency",
        "Schuster and Nakajima 2012, who choose by likelihood; the score is that of Hugging Face's course",
        "the greatest rise in likelihood (no figure)",
        STUDY,
        more_likely,
    ),
    Claim(
        "tokens-no-unknown",
        "Byte-level vocabularies know every text: no token is UNK in any language",
        "Radford et al. 2019 (GPT-2)",
        "no out-of-vocabulary text",
        STUDY,
        _no_unknown,
    ),
)
