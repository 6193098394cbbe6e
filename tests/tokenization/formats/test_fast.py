"""The same ids by the library tokenizers."""

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jaxtyping import Int32
from tokenizers import Regex, pre_tokenizers

from leadline.tokenization.bpe.tokenizer import BpeTokenizer, train_bpe
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.character import train_characters
from leadline.tokenization.formats.fast import FastTokenizer, UnicodeDisagreement, accelerate
from leadline.tokenization.tokenizer import Tokenizer
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer
from leadline.tokenization.unigram.training import train_unigram
from leadline.tokenization.word import train_words
from leadline.tokenization.wordpiece.training import train_wordpiece

CORPUS = ["low lower lowest, newest and widest; the ban on bananas: 1234 anchors. Étés\n" * 2]
BYTES = train_bpe(CORPUS, 300)
CHARACTERS = train_bpe(CORPUS, 60, unit="characters", pattern="words", normalization=["nfkc", "lower", "spaces"])

# A little of several languages and scripts, and what specials, bytes and continued words are called.
PARAGRAPHS = (
    "The lowest of the newest anchors, 1234 of them, weren't on the ban: see <b>widest</b> (or ##er).\n\n\tEnd.",
    "Die Straße war naß und groß; es kostete 12,50 € – „viel zu viel“, sagte Özlem. Ça va? Où est l'été e\u0301ternel?",
    "Δρόμος, ΔΡΟΜΟΣ: ήταν μακρύς. Дорога была длинной, 3 км. हिन्दी में लिखा हुआ। เขียนเป็นภาษาไทย",
    "東京は日本の首都です。人口は約1400万人。中文没有空格、所以不好分词。한국어는 띄어쓰기가 있다.",
    "🙂👍🏽 👨\u200d👩\u200d👧 flags 🇩🇪, x² + ½ = ⅷ\u00a0\u2003<bos> <0x41> ▁ \x00\x1c\x85",
    "<pad><eos> <unk> ΟΔΟΣ Σ " + "1 2\n" * 99 + "a" * 2**12 + " " * 2**12,
)
MIXED = [PARAGRAPHS[0] + CORPUS[0], *PARAGRAPHS[1:]]
WORDS = [
    kind
    for pattern in ("words", "whitespace", "gpt4")
    for kind in (train_words(MIXED, 60, pattern=pattern), train_wordpiece(MIXED, 300, "frequency", pattern=pattern).tokenizer())
]
UNIGRAMS = [
    train_unigram(MIXED, 480, byte_fallback=True, pattern="gpt4"),
    train_unigram(MIXED, 240, pattern="words", normalization=["nfkc", "lower"]),
    replace(train_unigram(MIXED, 240, escape=True, dummy_prefix=True), pattern=None),
]
UNIGRAMS.append(replace(UNIGRAMS[0], dummy_prefix=True))
FAST = [FastTokenizer(tokenizer) for tokenizer in [BYTES, CHARACTERS, *WORDS, *UNIGRAMS, train_characters(MIXED, 80)]]
KINDS = pytest.mark.parametrize("fast", FAST, ids=lambda fast: f"{fast.name}-{fast.definition().get('pattern')}")
# Any character at all, new ones too, between many that the vocabularies have.
KNOWN = [*"aelnorst  \n\t,.;#<>'12½é\u0301ñ日本語語🙂👍🏽\u200d", "low", "est", "<bos>", "<unk>x", "##", "<0x41>", "▁", "ʕ"]
ANY = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=3)
TEXT = st.lists(ANY | st.sampled_from(KNOWN), max_size=30).map("".join)


@KINDS
@settings(max_examples=10)
@given(text=TEXT)
@example(text="".join(PARAGRAPHS))
def test_ids_and_offsets_are_equal(fast: FastTokenizer, text: str) -> None:
    ids, offsets = fast.encode_with_offsets(text)
    expected_ids, expected_offsets = fast.wrapped.encode_with_offsets(text)
    assert fast.encode(text).tolist() == ids.tolist() == expected_ids.tolist()
    assert offsets.tolist() == expected_offsets.tolist()


def test_a_letter_that_one_engine_knows_only_is_cut_by_ours() -> None:
    """U+11DE0 is a digit since Unicode 17; to an engine that does not know it, a word ends before it."""
    fast = FastTokenizer(train_words(CORPUS))
    assert fast.encode("low\U00011de0").tolist() == fast.wrapped.encode("low\U00011de0").tolist() == [fast.specials.unk]


def test_a_copy_in_another_process_has_its_own_library() -> None:
    """What the library writes of a unigram's scores and reads again may differ in the last bit."""
    fast = FastTokenizer(UNIGRAMS[0])
    fast.encode("low")
    again = pickle.loads(pickle.dumps(fast))
    assert again == fast
    assert "_converted" not in vars(again)


@dataclass(frozen=True)
class Off(BpeTokenizer):
    """Every id is one too high."""

    def encode_batch(self, texts: object) -> list[Int32[np.ndarray, "..."]]:
        return [ids + 1 for ids in super().encode_batch(texts)]  # pyright: ignore[reportArgumentType]


def test_other_ids_are_seen_at_once() -> None:
    with pytest.raises(ValueError, match=r"gives .* other ids than its fast form"):
        FastTokenizer(Off(BYTES.merges))


@pytest.mark.parametrize("fast", FAST[:9], ids=lambda fast: fast.name)
def test_what_is_accelerated(fast: FastTokenizer) -> None:
    accelerated = accelerate(fast.wrapped)
    assert accelerated == fast
    assert accelerated.digest() == fast.wrapped.digest()


@pytest.mark.parametrize(
    "tokenizer",
    [
        ByteTokenizer(),
        train_characters(CORPUS),
        replace(BYTES, pattern=r"\w+|\W"),
        UnigramTokenizer(("a",), (-1.0,)),
        Off(BYTES.merges),
        FAST[0],
    ],
    ids=["byte", "character", "own pattern", "no form", "other ids", "fast already"],
)
def test_what_is_not_accelerated(tokenizer: Tokenizer) -> None:
    assert accelerate(tokenizer) is tokenizer


def in_one_engine_only(name: str, character: str) -> bool:
    """Whether a character is in a class for one engine only, asked one by one."""
    theirs = pre_tokenizers.Split(Regex(name), "removed", invert=True).pre_tokenize_str(character)
    return bool(theirs) != bool(regex.match(name, character))


def test_old_characters_are_not_disputed() -> None:
    assert UnicodeDisagreement().among(set()) == set()
    letters = {chr(i) for i in range(0x20, 0x250)} | set("हिन्दी ไทย 日本語 🙂\u200d\u3000²½_")
    assert UnicodeDisagreement().among(letters) == set()


@pytest.mark.parametrize("name", [r"\s", r"\p{L}", r"\p{N}", r"\p{M}", r"\p{Lo}", r"\p{Ll}"])
def test_characters_of_new_versions_of_unicode_are_disputed(name: str) -> None:
    """Some 400 characters of which recent versions took up many, and U+0295, which went from Ll to Lo."""
    characters = {chr(i) for i in range(0x11D80, 0x11F00)} | {"\u0295"}
    disputed = UnicodeDisagreement().among(characters)
    assert {character for character in characters if in_one_engine_only(name, character)} <= disputed
