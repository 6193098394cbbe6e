"""tokenizer.json of byte pair encoding, over bytes and over characters."""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from leadline.tokenization.bpe.tokenizer import BpeTokenizer
from leadline.tokenization.bpe.training import BYTE_ORDER
from leadline.tokenization.formats.huggingface_parts import (
    WORD,
    digit_split,
    is_digit_split,
    oniguruma_pattern,
    read_steps,
    require,
    special_names,
    step_normalizers,
)
from leadline.tokenization.normalization import Step
from leadline.tokenization.pretokenization import COVERING, PATTERNS


def bpe_to_huggingface(tokenizer: BpeTokenizer, steps: Sequence[Step]) -> Tokenizer:
    """Converts a BPE tokenizer.

    Raises:
        ValueError: The library cannot express the pattern (over characters, all but words and whitespace), or a piece is
            spelled like a special.
    """
    return (_from_bytes if tokenizer.unit == "bytes" else _from_characters)(tokenizer, step_normalizers(steps))


def read_bpe(file: Mapping[str, Any]) -> BpeTokenizer:
    """Reads a file of byte-level BPE.

    Raises:
        ValueError: A part, which is named, does not fit.
    """
    model = file["model"]
    _check_settings(model, file.get("post_processor"))
    pattern, single_digits = _read_cut(file["pre_tokenizer"])
    ids = model["vocab"]
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    require(all(len(pair) == 2 for pair in pairs), "a merge", next((pair for pair in pairs if len(pair) != 2), None), "a pair")
    merges = tuple((ids[left], ids[right]) for left, right in pairs)
    steps, others = read_steps(file["normalizer"])
    require(not others, "normalizer", others[:1], "NFC, NFKC, Lowercase, and white space made one space")
    tokenizer = BpeTokenizer(merges, pattern=pattern, single_digits=single_digits, normalization=steps)
    for spelling, token in _vocabulary(tokenizer).items():
        require(ids.get(spelling) == token, f"model.vocab[{spelling!r}]", ids.get(spelling), token)
    require(len(ids) == tokenizer.vocabulary_size, "the size of model.vocab", len(ids), tokenizer.vocabulary_size)
    names = list(special_names(tokenizer.specials))
    added = [token["content"] for token in file.get("added_tokens", []) if token["content"] not in names]
    require(not added, "added_tokens", added, names)
    return tokenizer


def byte_characters() -> dict[int, str]:
    """The character that stands for each byte in byte-level files: itself, or for the last 68 of BYTE_ORDER, from U+0100 on."""
    printed = len(BYTE_ORDER) - 68
    return {byte: chr(byte) if i < printed else chr(0x100 + i - printed) for i, byte in enumerate(BYTE_ORDER)}


def _check_settings(model: Mapping[str, Any], post_processor: Mapping[str, Any] | None) -> None:
    for key, default in (("type", "BPE"), ("dropout", None), ("unk_token", None), ("ignore_merges", False)):
        require(model.get(key, default) == default, f"model.{key}", model.get(key), default)
    for key in ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"):
        require(not model.get(key), f"model.{key}", model.get(key), None)
    byte_level = post_processor is None or post_processor["type"] == "ByteLevel"
    require(byte_level, "post_processor", post_processor, None)


def _vocabulary(tokenizer: BpeTokenizer) -> dict[str, int]:
    """The ids of the specials and pieces by their spelling. A byte is its character; END is a space, which no word contains."""
    character = byte_characters()
    vocabulary = special_names(tokenizer.specials)
    for token, piece in enumerate(tokenizer.table[len(vocabulary) :], start=len(vocabulary)):
        spelling = "".join([character[byte] for byte in piece]) if tokenizer.unit == "bytes" else piece.decode()
        if spelling in vocabulary:
            raise ValueError(
                f"the piece {spelling!r} is spelled like a special, which no file can hold; shorten to {token} ids"
            )
        vocabulary[spelling] = token
    return vocabulary


def _model(tokenizer: BpeTokenizer, unk: str | None) -> Tokenizer:
    vocabulary = _vocabulary(tokenizer)
    spelling = {token: piece for piece, token in vocabulary.items()}
    merges = [(spelling[left], spelling[right]) for left, right in tokenizer.merges]
    return Tokenizer(models.BPE(vocab=vocabulary, merges=merges, **({} if unk is None else {"unk_token": unk})))


def _from_bytes(tokenizer: BpeTokenizer, steps: list) -> Tokenizer:
    converted = _model(tokenizer, None)
    if steps:
        converted.normalizer = normalizers.Sequence(steps)
    parts = [digit_split()] if tokenizer.single_digits else []
    parts += [pre_tokenizers.Split(_expression(tokenizer.pattern), "removed", invert=True)]
    parts += [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    converted.pre_tokenizer = pre_tokenizers.Sequence(parts)
    converted.decoder = decoders.ByteLevel()
    return converted


def _expression(pattern: str) -> Regex:
    try:
        return Regex(oniguruma_pattern(pattern))
    except Exception as error:  # the library raises no narrower one
        raise ValueError(f"the tokenizers library cannot read the pattern {pattern!r} ({error})") from error


def _from_characters(tokenizer: BpeTokenizer, steps: list) -> Tokenizer:
    """The last normalizer puts the space that stands for END behind every word, as no later part of the library can."""
    inside = {"whitespace": r"\S", "words": WORD}.get(tokenizer.pattern)
    if inside is None:
        raise ValueError(f"over characters only the patterns whitespace and words can be exported, not {tokenizer.pattern!r}")
    if tokenizer.single_digits:
        inside = rf"[{inside}&&[^\p{{N}}]]"
    alone = rf"[^\s{inside}]"
    end = normalizers.Replace(Regex(f"(?<={inside})(?!{inside})|(?<={alone})"), " ")
    converted = _model(tokenizer, "<unk>")
    converted.normalizer = normalizers.Sequence([*steps, end])
    converted.pre_tokenizer = pre_tokenizers.Split(Regex(f"(?:{inside}+|{alone}) "), "removed", invert=True)
    converted.decoder = decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 0, 1)])
    return converted


def _read_cut(pre_tokenizer: Mapping[str, Any]) -> tuple[str, bool]:
    """The pattern of a file's pre-tokenizer, by its name if it has one, and whether every digit is a word."""
    parts = pre_tokenizer.get("pretokenizers", [pre_tokenizer])
    require(bool(parts), "pre_tokenizer", parts, "one that ends with ByteLevel")
    digits = is_digit_split(parts[0])
    *splits, last = parts[1:] if digits else parts
    byte_level = last["type"] == "ByteLevel" and not last["add_prefix_space"]
    require(byte_level, "pre_tokenizer", last, "ByteLevel, without a space added")
    if last.get("use_regex", True):
        require(not splits, "pre_tokenizer", splits, "nothing before ByteLevel with its own pattern")
        return "gpt2", digits
    require(len(splits) == 1 and "Regex" in splits[0].get("pattern", {}), "pre_tokenizer", splits, "one Split by a Regex")
    pattern = splits[0]["pattern"]["Regex"].replace(WORD, r"\w")
    name = next((name for name, published in PATTERNS.items() if published == pattern), pattern)
    removed = splits[0]["behavior"] == "Removed" and splits[0]["invert"]
    isolated = splits[0]["behavior"] == "Isolated" and name in COVERING
    require(removed or isolated, "pre_tokenizer", splits[0], "the words that its pattern matches, and nothing between them")
    return name, digits
