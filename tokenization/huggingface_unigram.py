"""tokenizer.json of unigram tokenizers.

The library adds the scores in float64 from left to right and keeps the first of equal sums, as `unigram_lattice.viterbi` does.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from tokenization.huggingface_parts import (
    BRACKET,
    STAND_IN,
    numbered,
    read_steps,
    read_word_cut,
    single_digits_cut,
    stand_ins,
    with_stand_in,
    without_stand_in,
    word_cut,
    written_steps,
)
from tokenization.normalization import Step
from tokenization.unigram import BYTES, SPACE, UnigramTokenizer

_BYTE_NAMES = tuple(f"<0x{value:02X}>" for value in range(BYTES))
_PREFIX = {"type": "Prepend", "prepend": " "}
_SPACES_BACK = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}


def unigram_form(tokenizer: UnigramTokenizer, steps: Sequence[Step]) -> Tokenizer:
    """The form of a unigram tokenizer.

    Raises ValueError for a pattern without a name; for one without a pattern that does not escape spaces, since a text could
    then have the name of a special in it; for scores of which all are above 0; and for a piece that no file can hold.
    """
    if tokenizer.pattern is None and not tokenizer.escape:
        raise ValueError("a unigram tokenizer without a pattern can be exported only if it escapes spaces")
    worst = min(tokenizer.scores, default=0.0)
    if worst > 0:  # else a character that is no piece is always worse than a piece that it is part of
        raise ValueError(f"the least score is {worst}; above 0 there is no log probability, which the library relies on")
    open_ended = _open_ended(tokenizer.pattern)
    pieces = tuple(map(with_stand_in, tokenizer.pieces)) if open_ended else tokenizer.pieces
    bytes_first = (_BYTE_NAMES if tokenizer.byte_fallback else ()) + pieces
    vocabulary = numbered(tokenizer.specials, bytes_first)
    # Names of specials and bytes have a score too, which no text has a use for. The worst changes nothing for the unknown.
    scores = [worst] * (len(vocabulary) - len(pieces)) + list(tokenizer.scores)
    unk = vocabulary["<unk>"]
    found = Tokenizer(
        models.Unigram(list(zip(vocabulary, scores, strict=True)), unk_id=unk, byte_fallback=tokenizer.byte_fallback)
    )
    if normalizer := written_steps(steps) + _before_cutting(tokenizer):
        found.normalizer = normalizers.Sequence(normalizer)
    if cutting := _cutting(tokenizer):
        found.pre_tokenizer = pre_tokenizers.Sequence(cutting)
    found.decoder = _decoder(tokenizer, open_ended)
    return found


def read_unigram(file: Mapping[str, Any]) -> UnigramTokenizer:
    """The tokenizer of a file that `unigram_form` wrote, which its caller checks."""
    model = file["model"]
    steps, behind = read_steps(file["normalizer"])
    pattern, digits = read_word_cut(file["pre_tokenizer"])
    names = tuple(token["content"][1:-1] for token in file["added_tokens"])
    first = len(names) + BYTES * model["byte_fallback"]
    pieces = [piece for piece, _ in model["vocab"][first:]]
    return UnigramTokenizer(
        tuple(map(without_stand_in, pieces)) if _open_ended(pattern) else tuple(pieces),
        tuple(score for _, score in model["vocab"][first:]),
        byte_fallback=model["byte_fallback"],
        escape=_SPACES_BACK in file["decoder"]["decoders"],
        dummy_prefix=_PREFIX in behind,
        pattern=pattern,
        single_digits=digits,
        normalization=steps,
        special_names=names,
    )


def _open_ended(pattern: str | None) -> bool:
    """Whether a word may have the name of a special in it, if < is written as such."""
    return pattern in (None, "whitespace")


def _before_cutting(tokenizer: UnigramTokenizer) -> list:
    prefix = [normalizers.Prepend(" ")] if tokenizer.dummy_prefix else []
    match tokenizer.pattern:
        case None:
            return [*prefix, normalizers.Replace(" ", SPACE), normalizers.Replace(BRACKET, STAND_IN)]
        case "whitespace":
            return prefix + stand_ins()
        case _:
            return prefix


def _cutting(tokenizer: UnigramTokenizer) -> list:
    pattern, digits = tokenizer.pattern, tokenizer.single_digits
    if pattern is None:
        return [single_digits_cut()] if digits else []
    # Spaces are escaped behind the pattern, which looks for spaces. Between white space there are none, only those for <.
    escaped = tokenizer.escape and pattern != "whitespace"
    metaspace = [pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="never", split=False)] if escaped else []
    return word_cut(pattern, single_digits=digits) + metaspace


def _decoder(tokenizer: UnigramTokenizer, open_ended: bool) -> decoders.Decoder:
    parts = [decoders.Replace(STAND_IN, BRACKET)] if open_ended else []
    parts += [decoders.Replace(SPACE, " ")] if tokenizer.escape else []
    parts += [decoders.ByteFallback(), decoders.Fuse()]
    parts += [decoders.Strip(" ", 1, 0)] if tokenizer.dummy_prefix else []
    return decoders.Sequence(parts)
