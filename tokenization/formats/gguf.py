"""Tokenizers of GGUF files, from their metadata: written as a tokenizer.json, which the library `tokenizers` reads.

A file names its pre-tokenizer by one word; what the word means is in llama.cpp, src/llama-vocab.cpp. Where the published
tokenizer.json of a model is known, that is followed: it normalizes the text of Qwen 2 by NFC, and cuts that of SmolLM 2 into
single digits before GPT-2's pattern. `transformers` has GPT-2's pattern alone for the GGUF file of SmolLM 2, so its ids differ
from these where white space stands before digits: in tabs before 12, and in a space before Burmese digits.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from leadline.tokenization.formats.published import PublishedTokenizer
from leadline.tokenization.pretokenization import PATTERNS
from leadline.tokenization.unigram.tokenizer import SPACE

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # kinds of tokens, by their numbers in the file


class GgufTokenizer(NamedTuple):
    """The tokenizer that the metadata of a GGUF file describe, under `tokenizer.ggml`. What the file does not state is None.

    Attributes:
        model: the algorithm: "gpt2" is byte-level BPE, "llama" is SentencePiece.
        pre: the name that llama.cpp gives to the pre-tokenizer, "smollm" or "llama-bpe" for example.
        tokens: by id.
        merges: of BPE, in order of rank, each two tokens with a blank between them.
        scores: of SentencePiece, by id.
        token_types: by id: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
        bos, eos, unk, pad: ids.
        add_bos: whether each text begins with `bos`.
        add_space_prefix: whether SentencePiece puts a blank in front of a text.
    """

    model: str
    pre: str | None
    tokens: tuple[str, ...]
    merges: tuple[str, ...] | None
    scores: tuple[float, ...] | None
    token_types: tuple[int, ...] | None
    bos: int | None
    eos: int | None
    unk: int | None
    pad: int | None
    add_bos: bool | None
    add_space_prefix: bool | None


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


_DIGITS = {"type": "Digits", "individual_digits": True}
_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
_GPT2 = _split(PATTERNS["gpt2"])
# Letters with case, as DeepSeek's pattern lists them. The escaped ones are not what NFC would make of them.
_CASED = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3"
    "ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"  # noqa: RUF001
)
_DEEPSEEK = (
    "[\r\n]",
    rf"\s?[{_CASED}]+",
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
    r"\s+$",
    "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
    r"\p{N}+",
)
# By the name of the pre-tokenizer what cuts the text, before its bytes become characters.
PRETOKENIZERS: Mapping[str, Sequence[dict[str, Any]]] = {
    "gpt-2": (_GPT2,),
    "smollm": (_DIGITS, _GPT2),
    "llama-bpe": (_split(PATTERNS["gpt4"]),),
    "qwen2": (_split(PATTERNS["gpt4"].replace("{1,3}", "")),),
    "deepseek-llm": tuple(map(_split, _DEEPSEEK)),
    "default": (_split(r"[\p{P}\$\+<=>\^~\|]+"), _GPT2, _split(r"\p{N}+"), _split("[0-9][0-9][0-9]")),
}


def gguf_tokenizer(described: GgufTokenizer) -> PublishedTokenizer:
    """The tokenizer of a GGUF file.

    "gpt2" is byte-level BPE by a list of merges. "llama" is BPE by scores: neighbours are merged into the piece of the greatest
    score, for which a list of merges is written, as the tokenizer.json of LLaMA 2 has it.

    Args:
        described: What the metadata say.

    Returns:
        The tokenizer; control tokens are special, and user-defined ones are matched in a text before all else.

    Raises:
        ValueError: The kind of tokenizer or pre-tokenizer is unknown, a list is missing or has another length than that of the
            tokens, a token is repeated, or a merge makes no token.
    """
    tokens = described.tokens
    types = described.token_types or (NORMAL,) * len(tokens)
    ids = {token: number for number, token in enumerate(tokens)}
    if any(len(values) != len(tokens) for values in (types, described.scores) if values is not None):
        raise ValueError(f"token types and scores: there must be one for each of the {len(tokens)} tokens")
    if len(ids) < len(tokens):
        raise ValueError(
            f"tokens: {next(token for number, token in enumerate(tokens) if ids[token] != number)!r} is there twice"
        )
    match described.model:
        case "gpt2":
            parts = _byte_level(described, ids)
        case "llama":
            parts = _by_scores(described, ids, types)
        case _:
            raise ValueError(f"a GGUF tokenizer of the model {described.model!r} cannot be read; gpt2 and llama can")
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": number, "content": token, **flags, "special": kind != USER_DEFINED}
        for number, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind in (UNKNOWN, CONTROL, USER_DEFINED)
    ]
    file = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "post_processor": None, **parts}
    specials = {"pad": described.pad, "unk": described.unk, "bos": described.bos, "eos": described.eos}
    return PublishedTokenizer(json.dumps(file, ensure_ascii=False), **specials)


def _byte_level(described: GgufTokenizer, ids: Mapping[str, int]) -> dict[str, Any]:
    """The parts of byte-level BPE."""
    cut = PRETOKENIZERS.get(described.pre or "")
    if cut is None:
        raise ValueError(f"the pre-tokenizer of a GGUF file is {described.pre!r}; known are {', '.join(PRETOKENIZERS)}")
    merges = [merge.split(" ") for merge in _wanted(described.merges, "merges")]
    for merge in merges:
        if len(merge) != 2 or not {*merge, "".join(merge)} <= ids.keys():
            raise ValueError(f"merges: {' '.join(merge)[:80]!r} is no pair of tokens that make a token")
    return {
        "normalizer": {"type": "NFC"} if described.pre == "qwen2" else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*cut, _BYTES]},
        "decoder": _BYTES,
        "model": _bpe(ids, merges) | {"ignore_merges": described.pre == "llama-bpe"},
    }


def _by_scores(described: GgufTokenizer, ids: Mapping[str, int], types: Sequence[int]) -> dict[str, Any]:
    """The parts of SentencePiece's BPE, as the published tokenizer.json of LLaMA 2 has them."""
    scores = _wanted(described.scores, "scores")
    unknown = next((token for token, number in ids.items() if types[number] == UNKNOWN), None)
    escape = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    unescape = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    prefixed = described.add_space_prefix is not False
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefixed else []
    prepend = [{"type": "Prepend", "prepend": SPACE}] if prefixed else []
    settings = {"unk_token": unknown, "fuse_unk": True, "byte_fallback": BYTE in types}
    pieces = {token: number for token, number in ids.items() if types[number] in (NORMAL, USER_DEFINED)}
    return {
        "normalizer": {"type": "Sequence", "normalizers": [*prepend, escape]},
        "pre_tokenizer": None,
        "decoder": {"type": "Sequence", "decoders": [unescape, {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]},
        "model": _bpe(ids, merges_of_scores(pieces, scores)) | settings,
    }


def _wanted(values: Sequence[Any] | None, name: str) -> Sequence[Any]:
    if values is None:
        raise ValueError(f"the metadata of the GGUF file have no {name} of its tokenizer")
    return values


def _bpe(ids: Mapping[str, int], merges: Sequence[Sequence[str]]) -> dict[str, Any]:
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None}
    return model | {"fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": dict(ids), "merges": merges}


def merges_of_scores(pieces: Mapping[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """The merges by which scores join pieces: every pair of pieces that makes a piece, the greatest score first.

    Args:
        pieces: The ids of the pieces.
        scores: The score of every id.
    """
    pairs = [
        (-scores[number], pieces[piece[:at]], pieces[piece[at:]], piece, at)
        for piece, number in pieces.items()
        for at in range(1, len(piece))
        if piece[:at] in pieces and piece[at:] in pieces
    ]
    return [(piece[:at], piece[at:]) for *_, piece, at in sorted(pairs)]
