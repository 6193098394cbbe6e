"""What every tokenizer guarantees, on one or more of each kind."""

import io
import random
from base64 import b64encode
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leadline.tokenization.base import TableTokenizer
from leadline.tokenization.bpe.tokenizer import train_bpe
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.character import train_characters
from leadline.tokenization.formats.fast import FastTokenizer
from leadline.tokenization.formats.saving import load, save
from leadline.tokenization.formats.sentencepiece import SentencePieceTokenizer
from leadline.tokenization.formats.tiktoken import RankTokenizer
from leadline.tokenization.normalization import normalize
from leadline.tokenization.tokenizer import Tokenizer
from leadline.tokenization.unigram.training import train_unigram
from leadline.tokenization.word import train_words
from leadline.tokenization.wordpiece.training import train_wordpiece

CORPUS = ["low lower lowest, newest and widest; the ban on bananas: 1234 anchors.\n" * 2, "été, été;  \t x"]
BYTES = {bytes([byte]): byte for byte in range(256)}


def sentencepiece_model() -> SentencePieceTokenizer:
    model = io.BytesIO()
    plain: dict[str, Any] = {
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "hard_vocab_limit": False,
    }
    ids: dict[str, Any] = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "num_threads": 1, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=model, vocab_size=300, byte_fallback=True, **plain, **ids
    )
    return SentencePieceTokenizer(b64encode(model.getvalue()).decode())


BPE = train_bpe(CORPUS, 300)
CHARACTER_BPE = train_bpe(CORPUS, 60, unit="characters", pattern="words", normalization=["nfkc", "lower"])
UNIGRAM = train_unigram(CORPUS, 300, byte_fallback=True).tokenizer
TOKENIZERS: dict[str, Tokenizer] = {
    "byte": ByteTokenizer(),
    "character": train_characters(CORPUS, normalization=["nfc"]),
    "word": train_words(CORPUS, pattern="whitespace", normalization=["lower", "spaces"]),
    "bpe": BPE,
    "bpe, digits": replace(BPE, pattern="gpt4", single_digits=True),
    "character-bpe": CHARACTER_BPE,
    "wordpiece": train_wordpiece(CORPUS, 60, "frequency", normalization=["nfc"]).tokenizer(),
    "unigram": train_unigram(CORPUS, 60, pattern="words", normalization=["lower"]).tokenizer,
    "unigram, bytes": UNIGRAM,
    "unigram, one word": replace(UNIGRAM, pattern=None, dummy_prefix=True),
    "sentencepiece": sentencepiece_model(),
    "ranks": RankTokenizer("toy", "gpt2", BYTES | {b"bc": 256, b"ab": 257, b"  ": 258}, {"<|endoftext|>": 259}),
    "fast bpe": FastTokenizer(BPE),
    "fast character-bpe": FastTokenizer(CHARACTER_BPE),
    "fast unigram": FastTokenizer(UNIGRAM),
}
LOSSLESS = {name: tokenizer for name, tokenizer in TOKENIZERS.items() if tokenizer.lossless}
EACH = pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS)
EACH_LOSSLESS = pytest.mark.parametrize("tokenizer", LOSSLESS.values(), ids=LOSSLESS)
PARTS = [*"abelnorst ,.\n1½é▁", "e\u0301", "low", "est", "<bos>", "  ", "##", "\x00", "ज", "語", "🙂"]
TEXTS = ["", " ", "  ", *("".join(random.Random(seed).choices(PARTS, k=40)) for seed in range(12))]


def test_which_of_them_are_lossless() -> None:
    lossless = {"byte", "bpe", "bpe, digits", "unigram, bytes", "unigram, one word", "ranks", "fast bpe", "fast unigram"}
    assert LOSSLESS.keys() == lossless


@EACH
def test_it_is_a_tokenizer(tokenizer: Tokenizer) -> None:
    assert isinstance(tokenizer, Tokenizer)


@EACH_LOSSLESS
@settings(max_examples=25)
@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"]) | st.sampled_from("abelow \n"), max_size=40))
@example(text=" a\x00b ")
def test_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)).decode() == text


@EACH
def test_all_ways_of_encoding_give_the_same_ids(tokenizer: Tokenizer) -> None:
    rows = tokenizer.encode_batch(TEXTS)
    assert all(row.dtype == np.int32 for row in rows)
    expected = [row.tolist() for row in rows]
    assert [tokenizer.encode(text).tolist() for text in TEXTS] == expected
    assert [tokenizer.encode(text.encode()).tolist() for text in TEXTS] == expected
    assert [tokenizer.encode_with_offsets(text)[0].tolist() for text in TEXTS] == expected


@EACH
def test_offsets_are_in_order(tokenizer: Tokenizer) -> None:
    for text in TEXTS:
        ids, offsets = tokenizer.encode_with_offsets(text)
        assert offsets.shape == (len(ids), 2)
        size = len(normalize(text, tokenizer.definition().get("normalization", ())).encode())
        assert (np.diff([0, *offsets.reshape(-1), size]) >= 0).all()


@EACH_LOSSLESS
def test_offsets_of_lossless_tokenizers_are_those_of_the_bytes_of_tokens(tokenizer: Tokenizer) -> None:
    for text in TEXTS:
        ids, offsets = tokenizer.encode_with_offsets(text)
        tokens = [tokenizer.token_bytes(token) for token in ids.tolist()]
        if sum(map(len, tokens)) > len(text.encode()):  # a dummy prefix
            tokens[0] = tokens[0].removeprefix(b" ")
        assert [text.encode()[start:end] for start, end in offsets] == tokens


@EACH
def test_specials_have_no_bytes(tokenizer: Tokenizer) -> None:
    specials = list(tokenizer.specials.ids())
    assert tokenizer.decode(specials) == b"".join(map(tokenizer.token_bytes, specials)) == b""


@EACH
def test_the_name_of_a_special_is_ordinary_text(tokenizer: Tokenizer) -> None:
    special = set(tokenizer.specials.ids()) - {tokenizer.specials.unk}
    assert not special & set(tokenizer.encode("<pad><bos> <eos> <|endoftext|> [PAD]").tolist())


@EACH
def test_no_ids_are_no_bytes(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode([]) == b""


@EACH
def test_every_id_of_the_vocabulary_has_bytes_and_no_other(tokenizer: Tokenizer) -> None:
    size = tokenizer.vocabulary_size
    assert tokenizer.decode(np.arange(size)).strip()
    assert any(tokenizer.token_bytes(token) for token in range(size))
    for token in (size, -1, 2**40):
        with pytest.raises(ValueError, match=f"id {token} at position 1 is outside the .* tokenizer's 0 to {size - 1}"):
            tokenizer.decode([0, token])
        with pytest.raises(ValueError, match=f"id {token} "):
            tokenizer.token_bytes(token)


@EACH
@pytest.mark.parametrize("ids", [np.array([1.0]), np.array([[1, 2]])], ids=["floats", "rows"])
def test_ids_are_one_row_of_integers(tokenizer: Tokenizer, ids: np.ndarray) -> None:
    with pytest.raises(ValueError, match="one row of integers"):
        tokenizer.decode(ids)


@EACH
def test_a_lone_surrogate_is_named(tokenizer: Tokenizer) -> None:
    for encode in (tokenizer.encode, tokenizer.encode_with_offsets):
        with pytest.raises(ValueError, match=r"character 2 .* U\+D800"):
            encode("ab\ud800")


@EACH
def test_bytes_that_are_not_utf8_are_named(tokenizer: Tokenizer) -> None:
    if tokenizer.name == "byte":
        assert tokenizer.decode(tokenizer.encode(b"ab\xff")) == b"ab\xff"
        return
    for encode in (tokenizer.encode, tokenizer.encode_with_offsets):
        with pytest.raises(ValueError, match="not UTF-8 at byte 2"):
            encode(b"ab\xff")


@EACH
def test_it_is_saved_and_loaded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    save(tokenizer, tmp_path / "new" / "folder")
    loaded = load(tmp_path / "new" / "folder")
    assert loaded == (tokenizer.wrapped if isinstance(tokenizer, FastTokenizer) else tokenizer)
    assert loaded.digest() == tokenizer.digest()
    assert loaded.encode(CORPUS[0]).tolist() == tokenizer.encode(CORPUS[0]).tolist()


@EACH
def test_the_definition_holds_every_field(tokenizer: Tokenizer) -> None:
    if isinstance(tokenizer, TableTokenizer):
        assert tokenizer.definition().keys() >= {field.name for field in fields(tokenizer)}


def test_different_tokenizers_have_different_digests() -> None:
    tokenizers = [tokenizer for tokenizer in TOKENIZERS.values() if not isinstance(tokenizer, FastTokenizer)]
    assert len({tokenizer.digest() for tokenizer in tokenizers}) == len(tokenizers)


@pytest.mark.parametrize(
    ("tokenizer", "digest"),
    [
        (ByteTokenizer(), "72a0a4ed0dcd4fb267b48c5dc1c54d3d353fce209d9f820bd6292b7099b37d68"),
        (replace(BPE, merges=((68, 69),)), "c1489e6cdd2e0694028677717df31cfbaf6559e09867f16659d800b03944e3e4"),
    ],
    ids=["byte", "bpe"],
)
def test_digests_stay(tokenizer: Tokenizer, digest: str) -> None:
    """Token files and records are keyed by them: they change only when the same text gets other ids."""
    assert tokenizer.digest() == digest
