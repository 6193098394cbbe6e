"""The same ids by the library tokenizers."""

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Int32

from tokenization.bpe import BpeTokenizer, train_bpe
from tokenization.byte import ByteTokenizer
from tokenization.character import train_characters
from tokenization.fast import FastTokenizer, quickest
from tokenization.tokenizer import Tokenizer
from tokenization.unigram import UnigramTokenizer
from tokenization.unigram_training import train_unigram
from tokenization.word import train_words
from tokenization.wordpiece_training import train_wordpiece

CORPUS = ["low lower lowest, newest and widest; the ban on bananas: 1234 anchors. Étés\n" * 2]
BYTES = train_bpe(CORPUS, 300)
CHARACTERS = train_bpe(CORPUS, 60, unit="characters", pattern="words", normalization=["nfkc", "lower", "spaces"])
FAST_BYTES, FAST_CHARACTERS = FastTokenizer(BYTES), FastTokenizer(CHARACTERS)
BOTH = pytest.mark.parametrize("fast", [FAST_BYTES, FAST_CHARACTERS], ids=["bytes", "characters"])

# A little of several languages and scripts, and what specials, bytes and continued words are called.
PARAGRAPHS = (
    "The lowest of the newest anchors, 1234 of them, weren't on the ban: see <b>widest</b> (or ##er).\n\n\tEnd.",
    "Die Straße war naß und groß; es kostete 12,50 € – „viel zu viel“, sagte Özlem. Ça va? Où est l'été e\u0301ternel?",
    "Δρόμος, ΔΡΟΜΟΣ: ήταν μακρύς. Дорога была длинной, 3 км. हिन्दी में लिखा हुआ। เขียนเป็นภาษาไทย",
    "東京は日本の首都です。人口は約1400万人。中文没有空格、所以不好分词。한국어는 띄어쓰기가 있다.",
    "🙂👍🏽 👨\u200d👩\u200d👧 flags 🇩🇪, x² + ½ = ⅷ\u00a0\u2003<bos> <0x41> ▁ \x00\x1c\x85",
)
MIXED = [PARAGRAPHS[0] + CORPUS[0], *PARAGRAPHS[1:]]
WORDS = [
    kind
    for pattern in ("words", "whitespace", "gpt4")
    for kind in (train_words(MIXED, 60, pattern=pattern), train_wordpiece(MIXED, 300, "frequency", pattern=pattern).tokenizer())
]
UNIGRAMS = [
    train_unigram(MIXED, 480, byte_fallback=True, pattern="gpt4").tokenizer,
    train_unigram(MIXED, 240, pattern="words", normalization=["nfkc", "lower"]).tokenizer,
    replace(train_unigram(MIXED, 240, escape=True, dummy_prefix=True).tokenizer, pattern=None),
]
OTHERS = [FastTokenizer(one) for one in [*WORDS, *UNIGRAMS, train_characters(MIXED, 80)]]
KINDS = pytest.mark.parametrize("fast", OTHERS, ids=lambda fast: f"{fast.name}-{fast.definition().get('pattern')}")
# Any character at all, new ones too, between many that the vocabularies have.
TEXT = st.lists(
    st.one_of(
        st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=3),
        st.sampled_from(
            [*"aelnorst  \n\t,.;#<>'12½é\u0301ñ日本語語🙂👍🏽\u200d", "low", "est", "<bos>", "<unk>x", "##", "<0x41>", "▁", "ʕ"]
        ),
    ),
    max_size=30,
).map("".join)


@BOTH
def test_it_is_the_tokenizer_that_it_wraps(fast: FastTokenizer) -> None:
    assert isinstance(fast, Tokenizer)
    for part in ("name", "vocabulary_size", "specials", "lossless"):
        assert getattr(fast, part) == getattr(fast.wrapped, part)
    assert (fast.digest(), fast.definition()) == (fast.wrapped.digest(), fast.wrapped.definition())


@given(TEXT)
def test_ids_and_offsets_are_equal(text: str) -> None:
    for fast in (FAST_BYTES, FAST_CHARACTERS):
        ids, places = fast.encode_with_offsets(text)
        expected = fast.wrapped.encode_with_offsets(text)
        assert fast.encode(text).tolist() == ids.tolist() == expected[0].tolist()
        assert places.tolist() == expected[1].tolist()


@given(TEXT)
def test_ids_and_offsets_of_other_kinds_are_equal(text: str) -> None:
    for fast in OTHERS:
        ids, places = fast.encode_with_offsets(text)
        expected = fast.wrapped.encode_with_offsets(text)
        assert fast.encode(text).tolist() == ids.tolist() == expected[0].tolist()
        assert places.tolist() == expected[1].tolist()


@KINDS
def test_ids_of_paragraphs_are_equal(fast: FastTokenizer) -> None:
    for ids, expected in zip(fast.encode_batch(PARAGRAPHS), fast.wrapped.encode_batch(PARAGRAPHS), strict=True):
        assert ids.tolist() == expected.tolist()


def test_a_letter_that_one_engine_knows_only_is_cut_by_ours() -> None:
    """U+11DE0 is a digit since Unicode 17; to an engine that does not know it, a word ends before it."""
    fast = FastTokenizer(train_words(CORPUS))
    assert fast.encode("low\U00011de0").tolist() == fast.wrapped.encode("low\U00011de0").tolist() == [fast.specials.unk]


def test_places_behind_a_dummy_prefix() -> None:
    fast = FastTokenizer(replace(UNIGRAMS[0], dummy_prefix=True))
    assert fast.lossless
    assert fast.encode_with_offsets("low é")[1].tolist() == fast.wrapped.encode_with_offsets("low é")[1].tolist()


def test_a_copy_in_another_process_has_its_own_library() -> None:
    """What the library writes of a unigram's scores and reads again may differ in the last bit."""
    fast = FastTokenizer(UNIGRAMS[0])
    fast.encode("low")
    again = pickle.loads(pickle.dumps(fast))
    assert again == fast
    assert "_fast" not in vars(again)


@BOTH
@pytest.mark.parametrize("text", ["<pad><eos> <unk>", "ΟΔΟΣ Σ", b"\xc3\xa9 \x00", "a" * 2**16, " " * 2**16, "1 2\n" * 999])
def test_ids_of_odd_texts_are_equal(fast: FastTokenizer, text: str | bytes) -> None:
    ids = fast.encode(text)
    assert ids.dtype == np.int32
    assert ids.tolist() == fast.wrapped.encode(text).tolist()


@BOTH
def test_bytes_come_back(fast: FastTokenizer) -> None:
    every = range(fast.vocabulary_size)
    assert fast.decode(list(every)) == fast.wrapped.decode(list(every))
    assert [fast.token_bytes(i) for i in every] == [fast.wrapped.token_bytes(i) for i in every]


@BOTH
def test_no_texts(fast: FastTokenizer) -> None:
    assert fast.encode_batch([]) == []
    assert fast.encode("").tolist() == []


@pytest.mark.parametrize(("text", "message"), [(b"ab\xff", "byte 2"), ("ab\ud800", r"character 2 .* U\+D800")])
def test_what_is_no_text_is_named(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FAST_BYTES.encode(text)


@dataclass(frozen=True)
class Off(BpeTokenizer):
    """Every id is one too high."""

    def encode_batch(self, texts: object) -> list[Int32[np.ndarray, "..."]]:
        return [ids + 1 for ids in super().encode_batch(texts)]  # pyright: ignore[reportArgumentType]


def test_other_ids_are_seen_at_once() -> None:
    with pytest.raises(ValueError, match=r"gives .* other ids than its fast form"):
        FastTokenizer(Off(BYTES.merges))


def test_what_the_library_has_no_form_of() -> None:
    with pytest.raises(ValueError, match="a byte tokenizer has no form"):
        FastTokenizer(ByteTokenizer())
    with pytest.raises(ValueError, match="only the patterns whitespace and words"):
        FastTokenizer(replace(CHARACTERS, pattern="gpt2"))


@pytest.mark.parametrize("tokenizer", [BYTES, CHARACTERS, *WORDS[:2], UNIGRAMS[0]], ids=lambda tokenizer: tokenizer.name)
def test_the_quickest_of_the_same_ids(tokenizer: Tokenizer) -> None:
    found = quickest(tokenizer)
    assert found == FastTokenizer(tokenizer)
    assert found.digest() == tokenizer.digest()


@pytest.mark.parametrize(
    "tokenizer",
    [
        ByteTokenizer(),
        train_characters(CORPUS),
        replace(BYTES, pattern=r"\w+|\W"),
        UnigramTokenizer(("a",), (-1.0,)),
        Off(BYTES.merges),
        FAST_BYTES,
    ],
    ids=["byte", "character", "own pattern", "no form", "other ids", "fast already"],
)
def test_what_is_quickest_itself(tokenizer: Tokenizer) -> None:
    assert quickest(tokenizer) is tokenizer
