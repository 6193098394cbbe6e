"""What every tokenizer guarantees, on one or more of each kind, and folders that are not as they were written."""

import hashlib
import json
import random
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leadline.tokenization.base import TableTokenizer
from leadline.tokenization.bpe.tokenizer import BpeTokenizer, train_bpe
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.character import train_characters
from leadline.tokenization.formats.fast import FastTokenizer
from leadline.tokenization.formats.huggingface import to_huggingface
from leadline.tokenization.formats.published import from_huggingface
from leadline.tokenization.formats.saving import DEFINITION, MANIFEST, load, of_definition, save
from leadline.tokenization.formats.tiktoken import RankTokenizer
from leadline.tokenization.normalization import normalize
from leadline.tokenization.pretokenization import WHOLE
from leadline.tokenization.tokenizer import Tokenizer
from leadline.tokenization.unigram.training import train_unigram
from leadline.tokenization.word import train_words
from leadline.tokenization.wordpiece.tokenizer import WordPieceTokenizer
from leadline.tokenization.wordpiece.training import train_wordpiece
from tests.tokenization.sentencepiece_models import BYTEWISE, PLAIN, trained_model

CORPUS = ["low lower lowest, newest and widest; the ban on bananas: 1234 anchors.\n" * 2, "été, été;  \t x"]
BYTES = {bytes([byte]): byte for byte in range(256)}


BPE = train_bpe(CORPUS, 300)
CHARACTER_BPE = train_bpe(CORPUS, 60, unit="characters", pattern="words", normalization=["nfkc", "lower"])
UNIGRAM = train_unigram(CORPUS, 300, byte_fallback=True)
TOKENIZERS: dict[str, Tokenizer] = {
    "byte": ByteTokenizer(),
    "character": train_characters(CORPUS, normalization=["nfc"]),
    "character, bytes": train_characters(CORPUS, byte_fallback=True),
    "word": train_words(CORPUS, pattern="whitespace", normalization=["lower", "spaces"]),
    "bpe": BPE,
    "bpe, digits": replace(BPE, pattern="gpt4", single_digits=True),
    "character-bpe": CHARACTER_BPE,
    "wordpiece": train_wordpiece(CORPUS, 60, "frequency", normalization=["nfc"]).tokenizer(),
    "wordpiece, bytes": train_wordpiece(CORPUS, 320, "frequency", pattern="gpt4", byte_fallback=True).tokenizer(),
    "wordpiece, long words": WordPieceTokenizer(("a", "##a"), WHOLE, longest_word=2, byte_fallback=True),
    "unigram": train_unigram(CORPUS, 60, pattern="words", normalization=["lower"]),
    "unigram, bytes": UNIGRAM,
    "unigram, one word": replace(UNIGRAM, pattern=None, dummy_prefix=True),
    "sentencepiece": trained_model(CORPUS, 300, **BYTEWISE, **PLAIN),
    "ranks": RankTokenizer("toy", "gpt2", BYTES | {b"bc": 256, b"ab": 257, b"  ": 258}, {"<|endoftext|>": 259}),
    "published bpe": from_huggingface(to_huggingface(BPE).to_str()),
    "published bpe, nfc": from_huggingface(to_huggingface(replace(BPE, normalization=("nfc",))).to_str()),
    "published character-bpe": from_huggingface(to_huggingface(CHARACTER_BPE).to_str()),
    "published unigram": from_huggingface(to_huggingface(replace(UNIGRAM, escape=True, dummy_prefix=True)).to_str()),
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
    lossless |= {"published bpe", "character, bytes", "wordpiece, bytes", "wordpiece, long words"}
    assert LOSSLESS.keys() == lossless


@EACH_LOSSLESS
@settings(max_examples=25)
@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"]) | st.sampled_from("abelow \n"), max_size=40))
@example(text=" a\x00b ")
def test_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)).decode() == text


@EACH
def test_all_ways_of_encoding_give_the_same_ids(tokenizer: Tokenizer) -> None:
    assert isinstance(tokenizer, Tokenizer)
    rows = tokenizer.encode_batch(TEXTS)
    assert all(row.dtype == np.int32 for row in rows)
    expected = [row.tolist() for row in rows]
    assert [tokenizer.encode(text).tolist() for text in TEXTS] == expected
    assert [tokenizer.encode(text.encode()).tolist() for text in TEXTS] == expected
    assert [tokenizer.encode_with_offsets(text)[0].tolist() for text in TEXTS] == expected


@EACH
def test_offsets_are_in_order_and_of_lossless_tokenizers_those_of_their_bytes(tokenizer: Tokenizer) -> None:
    for text in TEXTS:
        ids, offsets = tokenizer.encode_with_offsets(text)
        assert offsets.shape == (len(ids), 2)
        raw = normalize(text, tokenizer.definition().get("normalization", ())).encode()
        assert (np.diff([0, *offsets.reshape(-1), len(raw)]) >= 0).all()
        if tokenizer.lossless:
            tokens = [tokenizer.token_bytes(token) for token in ids.tolist()]
            if sum(map(len, tokens)) > len(raw):  # a dummy prefix
                tokens[0] = tokens[0].removeprefix(b" ")
            assert [raw[start:end] for start, end in offsets] == tokens


@EACH
def test_specials_have_no_bytes_and_their_names_are_ordinary_text(tokenizer: Tokenizer) -> None:
    specials = list(tokenizer.specials.ids())
    assert tokenizer.decode(specials) == b"".join(map(tokenizer.token_bytes, specials)) == tokenizer.decode([]) == b""
    named = tokenizer.encode("<pad><bos> <eos> <|endoftext|> [PAD]").tolist()
    assert not (set(specials) - {tokenizer.specials.unk}) & set(named)


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
def test_what_is_no_row_of_ids_and_no_text_is_named(tokenizer: Tokenizer) -> None:
    for ids in (np.array([1.0]), np.array([[1, 2]])):
        with pytest.raises(ValueError, match="one row of integers"):
            tokenizer.decode(ids)
    bad: list[tuple[str | bytes, str]] = [("ab\ud800", r"character 2 .* U\+D800"), (b"ab\xff", "not UTF-8 at byte 2")]
    for text, message in bad[: 1 if tokenizer.name == "byte" else 2]:  # bytes need not be UTF-8 to be ids
        for encode in (tokenizer.encode, tokenizer.encode_with_offsets):
            with pytest.raises(ValueError, match=message):
                encode(text)


@given(st.binary(max_size=300))
def test_any_bytes_are_ids_of_bytes(text: bytes) -> None:
    assert ByteTokenizer().encode(text).tolist() == list(text)
    assert ByteTokenizer().decode(list(text)) == text


@EACH
def test_it_is_saved_and_loaded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    save(tokenizer, tmp_path / "new" / "folder")
    loaded = load(tmp_path / "new" / "folder")
    assert loaded == (tokenizer.wrapped if isinstance(tokenizer, FastTokenizer) else tokenizer)
    assert loaded.digest() == tokenizer.digest()
    assert loaded.encode(CORPUS[0]).tolist() == tokenizer.encode(CORPUS[0]).tolist()
    if isinstance(tokenizer, TableTokenizer):
        assert tokenizer.definition().keys() >= {field.name for field in fields(tokenizer)}


def test_different_tokenizers_have_different_digests() -> None:
    tokenizers = [tokenizer for tokenizer in TOKENIZERS.values() if not isinstance(tokenizer, FastTokenizer)]
    assert len({tokenizer.digest() for tokenizer in tokenizers}) == len(tokenizers)


def test_digests_stay() -> None:
    """Token files and records are keyed by them: they change only when the same text gets other ids."""
    assert ByteTokenizer().digest() == "72a0a4ed0dcd4fb267b48c5dc1c54d3d353fce209d9f820bd6292b7099b37d68"
    merged = replace(BPE, merges=((68, 69),))
    assert merged.digest() == "c1489e6cdd2e0694028677717df31cfbaf6559e09867f16659d800b03944e3e4"


def test_the_definition_of_bytes_is_read_like_others() -> None:
    tokenizer = ByteTokenizer()
    assert ByteTokenizer.from_definition(json.loads(json.dumps(tokenizer.definition()))) == tokenizer
    with pytest.raises(ValueError, match=r"the definition of bytes is .*, not .*257"):
        of_definition(tokenizer.definition() | {"bytes": 257})


DEEP = b"[" * 100_000
NO_DIGEST = f"{MANIFEST}: a digest is missing"
NOT_WRITTEN = f"{DEFINITION}: not the file that was written"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Saved twice, which changes nothing."""
    save(BpeTokenizer(()), tmp_path)
    save(BpeTokenizer(()), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [DEFINITION, MANIFEST]
    return tmp_path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (MANIFEST, None, "no tokenizer is saved there"),
        (MANIFEST, b"{", f"{MANIFEST}: not JSON"),
        (MANIFEST, b"[]", f"{MANIFEST}: not an object"),
        (MANIFEST, DEEP, f"{MANIFEST}: not JSON"),
        *((DEFINITION, content, NOT_WRITTEN) for content in (None, b"", b"{}")),
    ],
    ids=["no manifest", "cut", "list", "deep", "no definition", "empty", "another"],
)
def test_a_file_that_is_gone_or_another(folder: Path, name: str, content: bytes | None, message: str) -> None:
    (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format 2 is not 1"),
        ({"digest": "0"}, "would give other ids"),
        ({"digest": None}, NO_DIGEST),
        ({"files": []}, NO_DIGEST),
    ],
    ids=str,
)
def test_another_manifest_is_refused(folder: Path, change: dict, message: str) -> None:
    manifest = json.loads((folder / MANIFEST).read_bytes())
    (folder / MANIFEST).write_text(json.dumps(manifest | change))
    with pytest.raises(ValueError, match=message):
        load(folder)


@pytest.mark.parametrize("change", [{"merges": 5}, {"merges": [1]}, {"alphabet": None}, {"normalization": None}])
def test_a_definition_with_values_of_other_types_is_refused(folder: Path, change: dict) -> None:
    definition = json.dumps(json.loads((folder / DEFINITION).read_bytes()) | change).encode()
    manifest = json.loads((folder / MANIFEST).read_bytes()) | {"files": {DEFINITION: hashlib.sha256(definition).hexdigest()}}
    (folder / DEFINITION).write_bytes(definition)
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=f"{DEFINITION}: not the definition of a tokenizer"):
        load(folder)


@pytest.mark.parametrize("kind", ["rune", [], None])
def test_an_unknown_kind_is_named(kind: object) -> None:
    with pytest.raises(ValueError, match="is not a known kind of tokenizer"):
        of_definition({"kind": kind})
