"""Why the same text takes more tokens in one language than in another: the premium as a product of the steps of a tokenizer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from leadline.experiments.config.base import Frozen
from leadline.experiments.data.text.parallel import described
from leadline.experiments.measure.exact.job import Computed, Job, independent
from leadline.experiments.records.measurement import Point, scalars
from leadline.tokenization.formats.published import PublishedTokenizer
from leadline.tokenization.formats.tiktoken import RankTokenizer
from leadline.tokenization.normalization import normalize
from leadline.tokenization.pretokenization import pretokenize
from leadline.tokenization.tokenizer import Tokenizer


class PremiumSettings(Frozen):
    """What decides the numbers of one tokenizer, besides the texts."""

    kind: Literal["premium"] = "premium"
    tokenizer: str  # its digest
    reference: str


@dataclass(frozen=True)
class Stages:
    """One text after each step of a tokenizer.

    Attributes:
        characters: Code points.
        bytes: Of UTF-8.
        words: What the pre-tokenizer cuts; as many as there are bytes where there is none, so that it changes nothing.
        visible: Tokens that are not ASCII white space alone.
        tokens: All of them.
    """

    characters: int
    bytes: int
    words: int
    visible: int
    tokens: int


def premium_jobs(tokenizers: Mapping[str, Tokenizer], texts: Mapping[str, str], reference: str) -> list[Job]:
    """A job for each tokenizer."""
    planned = []
    for name, tokenizer in tokenizers.items():
        settings = PremiumSettings(tokenizer=tokenizer.digest(), reference=reference)
        compute = independent(_decomposed, tokenizer, texts, reference)
        planned.append(Job(f"premium_{name}", name, settings, compute, described(texts)["digest"]))
    return planned


def stages(tokenizer: Tokenizer, text: str) -> Stages:
    """Counts a text after each step."""
    size, words = len(text.encode()), word_count(tokenizer, text)
    ids = tokenizer.encode(text).tolist()
    visible = sum(bool(tokenizer.token_bytes(token).strip()) for token in ids)
    return Stages(len(text), size, size if words is None else words, visible, len(ids))


def word_count(tokenizer: Tokenizer, text: str) -> int | None:
    """The number of words that the pre-tokenizer cuts a text into; None where the tokenizer has none."""
    if isinstance(tokenizer, RankTokenizer):
        return len(tokenizer.words.cut(text))
    if isinstance(tokenizer, PublishedTokenizer):
        library = tokenizer.library
        cleaned = text if library.normalizer is None else library.normalizer.normalize_str(text)
        return None if library.pre_tokenizer is None else len(library.pre_tokenizer.pre_tokenize_str(cleaned))
    definition = tokenizer.definition()
    if definition.get("pattern") is None:
        return None
    cleaned = normalize(text, definition.get("normalization", ()))
    return len(pretokenize(cleaned, definition["pattern"], single_digits=definition.get("single_digits", False)))


def factors(text: Stages, reference: Stages) -> dict[str, float]:
    """The premium of a text over a reference (Petrov et al. 2023, arXiv:2305.15425) as a product whose logarithms add exactly.

        T / T' = (C / C') · (B/C) / (B'/C') · (W/B) / (W'/B') · (V/W) / (V'/W') · (T/V) / (T'/V')

    for C characters, B bytes, W words, V tokens that are not white space alone, and T tokens, primed those of the reference. A
    script without spaces has long words of many tokens, so that only the product of the factors of words and of merges can be
    compared between scripts.

    Returns:
        `premium`, the left side, and its factors: `premium_characters` (how many characters the language takes),
        `premium_script` (bytes a character), `premium_words` (how finely the pre-tokenizer cuts), `premium_merges` (what the
        vocabulary makes of a word, or of a byte where nothing is cut) and `premium_spaces` (tokens of white space).
    """

    def ratio(top: str, bottom: str) -> float:
        of_text, of_reference = (getattr(stage, top) / getattr(stage, bottom) for stage in (text, reference))
        return of_text / of_reference

    return {
        "premium": text.tokens / reference.tokens,
        "premium_characters": text.characters / reference.characters,
        "premium_script": ratio("bytes", "characters"),
        "premium_words": ratio("words", "bytes"),
        "premium_merges": ratio("visible", "words"),
        "premium_spaces": ratio("tokens", "visible"),
    }


def _decomposed(tokenizer: Tokenizer, texts: Mapping[str, str], reference: str) -> Computed:
    by_language = {language: stages(tokenizer, text) for language, text in texts.items()}
    point: Point = {}
    for language, text in by_language.items():
        point |= scalars(factors(text, by_language[reference]), language=language)
    return Computed(point, described(texts))
