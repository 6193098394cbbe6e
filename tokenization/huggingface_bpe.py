"""tokenizer.json of byte pair encoding, over bytes and over characters."""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from tokenization.bpe import BpeTokenizer
from tokenization.bpe_training import BYTE_ORDER
from tokenization.huggingface_parts import (
    WORD,
    fits,
    is_single_digits,
    read_steps,
    single_digits_cut,
    special_names,
    written_pattern,
    written_steps,
)
from tokenization.normalization import Step
from tokenization.pretokenization import COVERING, PATTERNS


def bpe_form(tokenizer: BpeTokenizer, steps: Sequence[Step]) -> Tokenizer:
    """The form of a BPE tokenizer.

    Raises ValueError for a pattern that the library does not know, over characters for all but two, and for a piece that is
    spelled like a special.
    """
    return (_bytes_bpe if tokenizer.unit == "bytes" else _characters_bpe)(tokenizer, written_steps(steps))


def read_bpe(file: Mapping[str, Any]) -> BpeTokenizer:
    """The tokenizer of a file of byte-level BPE. Raises ValueError, naming the part, for one that does not fit."""
    model, after = file["model"], file.get("post_processor")
    for key, plain in (("type", "BPE"), ("dropout", None), ("unk_token", None), ("ignore_merges", False)):
        fits(model.get(key, plain) == plain, f"model.{key}", model.get(key), plain)
    for key in ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"):
        fits(not model.get(key), f"model.{key}", model.get(key), None)
    fits(after is None or after["type"] == "ByteLevel", "post_processor", after, None)
    pattern, single_digits = _cutting(file["pre_tokenizer"])
    ids = model["vocab"]
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    fits(all(len(pair) == 2 for pair in pairs), "a merge", next((pair for pair in pairs if len(pair) != 2), None), "a pair")
    merges = tuple((ids[left], ids[right]) for left, right in pairs)
    steps, behind = read_steps(file["normalizer"])
    fits(not behind, "normalizer", behind[:1], "NFC, NFKC, Lowercase, and white space made one space")
    found = BpeTokenizer(merges, pattern=pattern, single_digits=single_digits, normalization=steps)
    for spelling, i in _vocabulary(found).items():
        fits(ids.get(spelling) == i, f"model.vocab[{spelling!r}]", ids.get(spelling), i)
    fits(len(ids) == found.vocabulary_size, "the size of model.vocab", len(ids), found.vocabulary_size)
    names = list(special_names(found.specials))
    others = [token["content"] for token in file.get("added_tokens", []) if token["content"] not in names]
    fits(not others, "added_tokens", others, names)
    return found


def byte_characters() -> dict[int, str]:
    """The character that stands for each byte in byte-level files: itself, or for the last 68 of BYTE_ORDER, from U+0100 on."""
    shown = len(BYTE_ORDER) - 68
    return {byte: chr(byte) if i < shown else chr(0x100 + i - shown) for i, byte in enumerate(BYTE_ORDER)}


def _vocabulary(tokenizer: BpeTokenizer) -> dict[str, int]:
    """The string of every id. Each byte has its character; END is a space, which no word has in it."""
    spelling = byte_characters()
    found = special_names(tokenizer.specials)
    for i, piece in enumerate(tokenizer.pieces[len(found) :], start=len(found)):
        string = "".join([spelling[byte] for byte in piece]) if tokenizer.unit == "bytes" else piece.decode()
        if string in found:
            raise ValueError(f"the piece {string!r} is spelled like a special, which no file can hold; shorten to {i} ids")
        found[string] = i
    return found


def _model(tokenizer: BpeTokenizer, unk: str | None) -> Tokenizer:
    vocabulary = _vocabulary(tokenizer)
    string = {i: piece for piece, i in vocabulary.items()}
    merges = [(string[left], string[right]) for left, right in tokenizer.merges]
    return Tokenizer(models.BPE(vocab=vocabulary, merges=merges, **({} if unk is None else {"unk_token": unk})))


def _bytes_bpe(tokenizer: BpeTokenizer, steps: list) -> Tokenizer:
    found = _model(tokenizer, None)
    if steps:
        found.normalizer = normalizers.Sequence(steps)
    digits = [single_digits_cut()] if tokenizer.single_digits else []
    found.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *digits,
            pre_tokenizers.Split(_expression(tokenizer.pattern), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    found.decoder = decoders.ByteLevel()
    return found


def _expression(pattern: str) -> Regex:
    try:
        return Regex(written_pattern(pattern))
    except Exception as error:  # the library raises no narrower one
        raise ValueError(f"the library tokenizers does not know the pattern {pattern!r} ({error})") from error


def _characters_bpe(tokenizer: BpeTokenizer, steps: list) -> Tokenizer:
    """Its last normaliser puts the space that stands for END behind every piece, which nothing in that library does later."""
    inside = {"whitespace": r"\S", "words": WORD}.get(tokenizer.pattern)
    if inside is None:
        raise ValueError(f"over characters only the patterns whitespace and words can be exported, not {tokenizer.pattern!r}")
    if tokenizer.single_digits:
        inside = rf"[{inside}&&[^\p{{N}}]]"
    alone = rf"[^\s{inside}]"
    end = normalizers.Replace(Regex(f"(?<={inside})(?!{inside})|(?<={alone})"), " ")
    found = _model(tokenizer, "<unk>")
    found.normalizer = normalizers.Sequence([*steps, end])
    found.pre_tokenizer = pre_tokenizers.Split(Regex(f"(?:{inside}+|{alone}) "), "removed", invert=True)
    found.decoder = decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 0, 1)])
    return found


def _cutting(pre_tokenizer: Mapping[str, Any]) -> tuple[str, bool]:
    """The pattern of a file's pre-tokenizer, by its name if it has one, and whether digits stand alone."""
    parts = pre_tokenizer.get("pretokenizers", [pre_tokenizer])
    fits(bool(parts), "pre_tokenizer", parts, "one that ends with ByteLevel")
    digits = is_single_digits(parts[0])
    *cutting, last = parts[1:] if digits else parts
    fits(
        last["type"] == "ByteLevel" and not last["add_prefix_space"], "pre_tokenizer", last, "ByteLevel, without a space added"
    )
    if last.get("use_regex", True):
        fits(not cutting, "pre_tokenizer", cutting, "nothing before ByteLevel with its own pattern")
        return "gpt2", digits
    fits(len(cutting) == 1 and "Regex" in cutting[0].get("pattern", {}), "pre_tokenizer", cutting, "one Split by a Regex")
    pattern = cutting[0]["pattern"]["Regex"].replace(WORD, r"\w")
    name = next((name for name, known in PATTERNS.items() if known == pattern), pattern)
    removed = cutting[0]["behavior"] == "Removed" and cutting[0]["invert"]
    isolated = cutting[0]["behavior"] == "Isolated" and name in COVERING
    fits(removed or isolated, "pre_tokenizer", cutting[0], "the pieces that its pattern finds, and nothing between them")
    return name, digits
