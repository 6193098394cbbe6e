"""Tokenizers of GGUF files: ids of the published tokenizer.json of the same model, and what is refused."""

import json
import unicodedata
from typing import Any

import pytest
import regex

from leadline.tokenization.bpe.tokenizer import train_bpe
from leadline.tokenization.formats.gguf import BYTE as BYTE_TOKEN
from leadline.tokenization.formats.gguf import (
    CONTROL,
    NORMAL,
    PRETOKENIZERS,
    UNKNOWN,
    USER_DEFINED,
    GgufTokenizer,
    gguf_tokenizer,
)
from leadline.tokenization.formats.huggingface import to_huggingface
from leadline.tokenization.formats.published import FILE, load_published
from leadline.tokenization.tokenizer import Specials
from tests.refused import refused
from tests.tokenization.formats.test_published import ODD, REAL

BYTES = train_bpe(["low lower lowest, newest and widest, 1234 and 12 " * 3], 270)
EMPTY = GgufTokenizer("gpt2", None, (), None, None, None, None, None, None, None, None, None)


def described(file: dict[str, Any], pre: str) -> GgufTokenizer:
    """The description of byte-level BPE with the vocabulary of a tokenizer.json."""
    kinds = {token["content"]: CONTROL if token["special"] else USER_DEFINED for token in file["added_tokens"]}
    ids = file["model"]["vocab"] | {token["content"]: token["id"] for token in file["added_tokens"]}
    tokens = sorted(ids, key=ids.__getitem__)
    merges = tuple(merge if isinstance(merge, str) else " ".join(merge) for merge in file["model"]["merges"])
    types = tuple(kinds.get(token, NORMAL) for token in tokens)
    return EMPTY._replace(pre=pre, tokens=tuple(tokens), token_types=types, merges=merges)


TOY = described(json.loads(to_huggingface(BYTES).to_str()), "gpt-2")
SCORED = EMPTY._replace(
    model="llama",
    tokens=("<unk>", "<s>", "<0x61>", "▁", "a", "b", "ab", "▁a"),
    token_types=(UNKNOWN, CONTROL, BYTE_TOKEN, *[NORMAL] * 5),
    scores=(0.0, 0.0, 0.0, -4.0, -5.0, -6.0, -1.0, -2.0),
    bos=1,
    unk=0,
)


def test_special_ids_and_kinds_of_tokens() -> None:
    tokenizer = gguf_tokenizer(TOY._replace(pad=0, bos=1, eos=2))
    assert tokenizer.specials == BYTES.specials
    assert tokenizer.encode("low lower <eos> 12").tolist() == BYTES.encode("low lower <eos> 12").tolist()


@pytest.mark.parametrize(
    ("pre", "words"),
    [
        ("gpt-2", ["It", "'s", " 1234", " x", "=", "\n\n"]),
        ("smollm", ["It", "'s", " ", "1", "2", "3", "4", " x", "=", "\n\n"]),
        ("llama-bpe", ["It", "'s", " ", "123", "4", " x", "=\n\n"]),
        ("qwen2", ["It", "'s", " ", "1", "2", "3", "4", " x", "=\n\n"]),
        ("deepseek-llm", ["It", "'", "s", " ", "1234", " x", "=", "\n", "\n"]),
        ("default", ["It", "'", "s", " ", "123", "4", " x", "=", "\n\n"]),
    ],
)
def test_what_each_name_of_a_pretokenizer_cuts(pre: str, words: list[str]) -> None:
    cut = gguf_tokenizer(TOY._replace(pre=pre)).library.pre_tokenizer
    shown = [word.replace("Ġ", " ").replace("Ċ", "\n") for word, _ in cut.pre_tokenize_str("It's 1234 x=\n\n")]
    assert shown == words


def test_only_qwen_is_normalized() -> None:
    for pre in PRETOKENIZERS:
        assert (gguf_tokenizer(TOY._replace(pre=pre)).library.normalizer is not None) == (pre == "qwen2")


def test_deepseek_lists_letters_with_case() -> None:
    (letters,) = regex.findall(r"^\\s\?(\[.*\])\+$", PRETOKENIZERS["deepseek-llm"][1]["pattern"]["Regex"])
    listed = regex.findall(letters, "".join(map(chr, range(0xD800))) + "".join(map(chr, range(0xE000, 0x1F000))))
    assert len(listed) == 2729
    assert {unicodedata.category(character) for character in listed} == {"Lu", "Ll", "Lt"}


def test_scores_join_the_best_pair_first() -> None:
    tokenizer = gguf_tokenizer(SCORED)
    assert tokenizer.encode("ab").tolist() == [3, 6]  # ▁|ab, not ▁a|b
    assert tokenizer.specials == Specials(unk=0, bos=1)
    assert tokenizer.decode([3, 6, 2]) == b"aba"
    unprefixed = gguf_tokenizer(SCORED._replace(add_space_prefix=False))
    assert unprefixed.encode("ab").tolist() == [6]
    assert unprefixed.decode(unprefixed.encode(" ab")) == b" ab"


NEEDED = pytest.mark.skipif(not REAL.is_dir(), reason=f"published tokenizers are not in {REAL}")


@NEEDED
@pytest.mark.slow
@pytest.mark.parametrize(("name", "pre"), [("llama3", "llama-bpe"), ("qwen3", "qwen2")])
def test_ids_are_those_of_the_published_file(name: str, pre: str) -> None:
    published = load_published(REAL / name / FILE)
    tokenizer = gguf_tokenizer(described(json.loads(published.file), pre))
    for text in ODD:
        assert tokenizer.encode(text).tolist() == published.encode(text).tolist()


@NEEDED
def test_scores_give_the_merges_of_llama_2() -> None:
    """Runs of spaces have the least score in its SentencePiece model, and other pieces minus their number."""
    published = load_published(REAL / "llama2" / FILE)
    model = json.loads(published.file)["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    types = (UNKNOWN, CONTROL, CONTROL, *[BYTE_TOKEN] * 256, *[NORMAL] * (len(tokens) - 259))
    runs = {token for token in tokens if set(token) == {"▁"} and len(token) > 1}
    scores = tuple(-1e9 if token in runs else -float(number) for number, token in enumerate(tokens))
    tokenizer = gguf_tokenizer(EMPTY._replace(model="llama", tokens=tuple(tokens), token_types=types, scores=scores))
    theirs = {tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in model["merges"]}
    assert {tuple(merge) for merge in json.loads(tokenizer.file)["model"]["merges"]} == theirs
    for text in ODD:
        assert tokenizer.encode(text).tolist() == published.encode(text).tolist()


test_what_is_refused = refused(
    (lambda: gguf_tokenizer(EMPTY._replace(model="bert")), "of the model 'bert' cannot be read; gpt2 and llama can"),
    (lambda: gguf_tokenizer(TOY._replace(pre="tekken")), "is 'tekken'; known are gpt-2, smollm, llama-bpe, qwen2"),
    (lambda: gguf_tokenizer(TOY._replace(pre=None)), "pre-tokenizer of a GGUF file is None"),
    (lambda: gguf_tokenizer(TOY._replace(merges=None)), "no merges of its tokenizer"),
    (lambda: gguf_tokenizer(SCORED._replace(scores=None)), "no scores of its tokenizer"),
    (lambda: gguf_tokenizer(TOY._replace(token_types=(1,))), "one for each of the 270 tokens"),
    (lambda: gguf_tokenizer(SCORED._replace(scores=(0.0,))), "one for each of the 8 tokens"),
    (lambda: gguf_tokenizer(TOY._replace(tokens=("a",) * 270)), "tokens: 'a' is there twice"),
    (lambda: gguf_tokenizer(TOY._replace(merges=("a b c",))), "merges: 'a b c' is no pair"),
    (lambda: gguf_tokenizer(TOY._replace(merges=("a QQ",))), "merges: 'a QQ' is no pair"),
)
