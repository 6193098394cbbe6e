"""WordPiece against the tokenizers library: equal ids of equal vocabularies, and what its trainer optimises."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.trainers import WordPieceTrainer

from leadline.tokenization.wordpiece.tokenizer import WordPieceTokenizer
from leadline.tokenization.wordpiece.training import merge_steps, train_wordpiece

pytestmark = pytest.mark.oracle

HUGS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
PIECES = st.lists(st.tuples(st.booleans(), st.text("abcé😀", min_size=1, max_size=4)), min_size=1, max_size=30, unique=True)


def library(ours: WordPieceTokenizer) -> Tokenizer:
    """Their tokenizer of our vocabulary, where every special has a name that no text of these tests holds."""
    ids = {f"[{name}]": i for name, i in ours.specials.named().items()}
    ids |= {piece: i for i, piece in enumerate(ours.pieces, start=len(ids))}
    tokenizer = Tokenizer(WordPiece(ids, unk_token="[unk]", max_input_chars_per_word=ours.longest_word))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return tokenizer


@settings(max_examples=100)
@given(PIECES, st.text("abcé😀 ", max_size=40), st.integers(1, 10))
def test_ids_and_places_equal_theirs(pieces, text, longest):
    ours = WordPieceTokenizer(tuple("##" * inside + piece for inside, piece in pieces), "whitespace", longest_word=longest)
    theirs = library(ours).encode(text)
    ids, places = ours.encode_with_offsets(text)
    assert ids.tolist() == theirs.ids
    assert [text.encode()[a:b].decode() for a, b in places] == [text[a:b] for a, b in theirs.offsets]


@settings(max_examples=20)
@given(st.text("abcd ", min_size=1, max_size=80), st.sampled_from(["frequency", "ratio", "likelihood_gain"]))
def test_trained_vocabularies_give_their_ids(text, criterion):
    ours = train_wordpiece([text], 40, criterion, pattern="whitespace").tokenizer()
    assert ours.encode(text + " dcba").tolist() == library(ours).encode(text + " dcba").ids


def test_their_trainer_goes_by_frequency():
    """Its first step is ours by frequency, and not ours by the ratio."""
    theirs = Tokenizer(WordPiece(unk_token="[unk]"))
    trainer = WordPieceTrainer(vocab_size=12, show_progress=False)  # 7 characters, 4 with ##, and one step
    theirs.pre_tokenizer = WhitespaceSplit()
    theirs.train_from_iterator([" ".join([word] * count) for word, count in HUGS.items()], trainer)
    vocabulary = theirs.get_vocab()
    assert next(merge_steps(HUGS, "frequency")).piece in vocabulary
    assert next(merge_steps(HUGS, "ratio")).piece not in vocabulary
