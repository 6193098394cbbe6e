"""Encoding shown merge by merge."""

import json

import pytest

from leadline.tokenization.bpe.tokenizer import BpeTokenizer
from leadline.tokenization.formats.huggingface import to_huggingface
from leadline.tokenization.formats.merge_trace import TracedMerge, trace_merges
from leadline.tokenization.formats.published import FILE, from_huggingface, load_published
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer
from tests.refused import refused
from tests.tokenization.formats.test_published import REAL, SPACED, WITH_THINK, read

LETTER = {character: 3 + number for number, character in enumerate(map(chr, range(33, 127)))}
ABC = BpeTokenizer(((LETTER["b"], LETTER["c"]), (LETTER["a"], LETTER["b"]), (LETTER["a"], 259)))
FILE_OF_ABC = json.loads(to_huggingface(ABC).to_str())


def test_the_earliest_merge_is_made_first_and_of_equal_ones_the_leftmost() -> None:
    """(b, c), then (a, bc); (a, b) is later in the list and no longer possible."""
    steps = list(trace_merges(read(FILE_OF_ABC), "abcbc a"))
    assert steps == [
        TracedMerge(b"abcbc", b"b", b"c", 0, 4),
        TracedMerge(b"abcbc", b"b", b"c", 0, 3),
        TracedMerge(b"abcbc", b"a", b"bc", 2, 2),
    ]


def test_a_word_that_the_file_takes_whole_has_no_merges() -> None:
    whole = FILE_OF_ABC | {"model": FILE_OF_ABC["model"] | {"ignore_merges": True}}
    assert not list(trace_merges(read(whole), "abc"))


def test_characters_that_are_no_pieces_begin_as_bytes() -> None:
    assert list(trace_merges(read(SPACED), "aé")) == [TracedMerge(" aé".encode(), b" ", b"a", 0, 3)]


@pytest.mark.skipif(not REAL.is_dir(), reason=f"published tokenizers are not in {REAL}")
@pytest.mark.parametrize("name", ["llama2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("llama3", "qwen3"))])
def test_published_tokenizers_are_traced_to_their_ids(name: str) -> None:
    """`trace_merges` compares the ids."""
    assert list(trace_merges(load_published(REAL / name / FILE), "the flibbertigibbets' e\u0301 中文 12345 🙂\n"))


UNIGRAM = UnigramTokenizer(("a", "b"), (-1.0, -2.0), pattern="gpt2")
MARKED = FILE_OF_ABC | {"model": FILE_OF_ABC["model"] | {"end_of_word_suffix": "</w>"}}
test_what_has_no_merges_is_said = refused(
    (lambda: list(trace_merges(from_huggingface(to_huggingface(UNIGRAM).to_str()), "ab")), "not a model of the type Unigram"),
    (lambda: list(trace_merges(read(MARKED), "ab")), "not a model of the type BPE with end_of_word_suffix"),
    (lambda: list(trace_merges(read(WITH_THINK), "<think>")), "the text has an added token"),
)
