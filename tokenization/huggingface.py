"""The files tokenizer.json of the library `tokenizers`: ours written as one, and theirs read where they fit.

The offsets of that library count characters of the text as it was given; ours are bytes of the normalised text.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from tokenization import tokenizer as ours
from tokenization.bpe import BpeTokenizer
from tokenization.bpe_training import BYTE_ORDER
from tokenization.normalization import Step
from tokenization.pretokenization import COVERING, PATTERNS

# What Python's `regex` means by \w. Oniguruma, the engine of `tokenizers`, adds fractions and superscripts to it.
_WORD = r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]"


def to_huggingface(tokenizer: ours.Tokenizer, *, normalize: bool = True) -> Tokenizer:
    """The tokenizer of that library that gives a text the same ids; its specials are called "<pad>" and so on.

    Three things differ. It takes the names of specials in a text for the specials, unless `encode_special_tokens` is set. It
    lower-cases each character by itself, so that a Greek sigma that ends a word is σ, where Unicode and `normalized` have ς.
    And a letter that its version of Unicode does not know yet is none to it.

    Args:
        tokenizer: one of ours.
        normalize: whether it normalises the text; False where that is done before.

    Raises ValueError for a tokenizer of another kind, and for a piece that is spelled like a special.
    """
    match tokenizer:
        case BpeTokenizer(unit="bytes"):
            found = _bytes_bpe(tokenizer, _normalizers(tokenizer.normalization if normalize else ()))
        case BpeTokenizer():
            found = _characters_bpe(tokenizer, _normalizers(tokenizer.normalization if normalize else ()))
        case _:
            raise ValueError(f"a {tokenizer.name} tokenizer has no form in tokenizer.json here")
    names = [f"<{name}>" for name in tokenizer.specials.named()]
    found.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    return found


def from_huggingface(text: str) -> BpeTokenizer:
    """The tokenizer of a tokenizer.json, given as text, of byte-level BPE whose ids are in our order.

    That is: "<pad>", "<bos>" and "<eos>" are the ids 0, 1 and 2, then come the 256 bytes in the order of the characters that
    stand for them, then the merges in theirs. Trained by `tokenizers` with these specials and all bytes, a file is so.

    Raises ValueError, naming the part, for a file that is no such tokenizer.
    """
    try:
        return _read(json.loads(text))
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no tokenizer.json ({error!r}); give the text of one") from error


def _read(file: Mapping[str, Any]) -> BpeTokenizer:
    model, after = file["model"], file.get("post_processor")
    for key, plain in (("type", "BPE"), ("dropout", None), ("unk_token", None), ("ignore_merges", False)):
        _fits(model.get(key, plain) == plain, f"model.{key}", model.get(key), plain)
    for key in ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"):
        _fits(not model.get(key), f"model.{key}", model.get(key), None)
    _fits(after is None or after["type"] == "ByteLevel", "post_processor", after, None)
    pattern, single_digits = _cutting(file["pre_tokenizer"])
    ids = model["vocab"]
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    _fits(all(len(pair) == 2 for pair in pairs), "a merge", next((pair for pair in pairs if len(pair) != 2), None), "a pair")
    merges = tuple((ids[left], ids[right]) for left, right in pairs)
    found = BpeTokenizer(merges, pattern=pattern, single_digits=single_digits, normalization=_steps(file["normalizer"]))
    for spelling, i in _vocabulary(found).items():
        _fits(ids.get(spelling) == i, f"model.vocab[{spelling!r}]", ids.get(spelling), i)
    _fits(len(ids) == found.vocabulary_size, "the size of model.vocab", len(ids), found.vocabulary_size)
    names = [f"<{name}>" for name in found.specials.named()]
    others = [token["content"] for token in file.get("added_tokens", []) if token["content"] not in names]
    _fits(not others, "added_tokens", others, names)
    return found


def byte_characters() -> dict[int, str]:
    """The character that stands for each byte in byte-level files: itself, or for the last 68 of BYTE_ORDER, from U+0100 on."""
    shown = len(BYTE_ORDER) - 68
    return {byte: chr(byte) if i < shown else chr(0x100 + i - shown) for i, byte in enumerate(BYTE_ORDER)}


def _vocabulary(tokenizer: BpeTokenizer) -> dict[str, int]:
    """The string of every id. Each byte has its character; END is a space, which no word has in it."""
    spelling = byte_characters()
    found = {f"<{name}>": i for name, i in tokenizer.specials.named().items()}
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
    pattern = PATTERNS.get(tokenizer.pattern, tokenizer.pattern).replace(r"\w", _WORD)
    digits = [pre_tokenizers.Split(Regex(r"\p{N}"), "isolated")] if tokenizer.single_digits else []
    found.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *digits,
            pre_tokenizers.Split(Regex(pattern), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    found.decoder = decoders.ByteLevel()
    return found


def _characters_bpe(tokenizer: BpeTokenizer, steps: list) -> Tokenizer:
    """Its last normaliser puts the space that stands for END behind every piece, which nothing in that library does later."""
    inside = {"whitespace": r"\S", "words": _WORD}.get(tokenizer.pattern)
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


def _normalizers(steps: Sequence[Step]) -> list:
    found = []
    for step in steps:
        match step:
            case "nfc":
                found += [normalizers.NFC()]
            case "nfkc":
                found += [normalizers.NFKC()]
            case "lower":
                found += [normalizers.Lowercase()]
            case "spaces":
                found += [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    return found


def _steps(normalizer: Mapping[str, Any] | None) -> tuple[Step, ...]:
    """The steps of a file's normaliser."""
    parts = [] if normalizer is None else normalizer.get("normalizers", [normalizer])
    known: dict[str, Step] = {"NFC": "nfc", "NFKC": "nfkc", "Lowercase": "lower"}
    space = [{"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}]
    space += [{"type": "Strip", "strip_left": True, "strip_right": True}]
    steps: list[Step] = []
    while parts:
        if parts[:2] == space:
            steps.append("spaces")
            parts = parts[2:]
        else:
            _fits(parts[0]["type"] in known, "normalizer", parts[0], ", ".join(known))
            steps.append(known[parts[0]["type"]])
            parts = parts[1:]
    return tuple(steps)


def _cutting(pre_tokenizer: Mapping[str, Any]) -> tuple[str, bool]:
    """The pattern of a file's pre-tokenizer, by its name if it has one, and whether digits stand alone."""
    parts = pre_tokenizer.get("pretokenizers", [pre_tokenizer])
    _fits(bool(parts), "pre_tokenizer", parts, "one that ends with ByteLevel")
    digits = parts[0] in (
        {"type": "Split", "pattern": {"Regex": r"\p{N}"}, "behavior": "Isolated", "invert": False},
        {"type": "Digits", "individual_digits": True},
    )
    *cutting, last = parts[1:] if digits else parts
    _fits(
        last["type"] == "ByteLevel" and not last["add_prefix_space"], "pre_tokenizer", last, "ByteLevel, without a space added"
    )
    if last.get("use_regex", True):
        _fits(not cutting, "pre_tokenizer", cutting, "nothing before ByteLevel with its own pattern")
        return "gpt2", digits
    _fits(len(cutting) == 1 and "Regex" in cutting[0].get("pattern", {}), "pre_tokenizer", cutting, "one Split by a Regex")
    pattern = cutting[0]["pattern"]["Regex"].replace(_WORD, r"\w")
    name = next((name for name, known in PATTERNS.items() if known == pattern), pattern)
    removed = cutting[0]["behavior"] == "Removed" and cutting[0]["invert"]
    isolated = cutting[0]["behavior"] == "Isolated" and name in COVERING
    _fits(removed or isolated, "pre_tokenizer", cutting[0], "the pieces that its pattern finds, and nothing between them")
    return name, digits


def _fits(holds: bool, part: str, value: object, wanted: object) -> None:
    if not holds:
        raise ValueError(f"{part} is {value!r}, and only {wanted!r} can be read here")
