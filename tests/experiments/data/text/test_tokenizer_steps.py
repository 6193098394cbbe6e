"""Steps of tokenizers as the command line shows them."""

from pathlib import Path

import numpy as np
import pytest

from leadline.experiments.config.tokenizer import Bpe, WordPiece
from leadline.experiments.data.text.tokenizer_steps import traced, traced_encoding
from leadline.experiments.data.text.tokenizers import train_tokenizer
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.formats.huggingface import to_huggingface
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer
from leadline.tokenization.unigram.training import rounds_of_texts
from leadline.tokenization.wordpiece.tokenizer import WordPieceTokenizer
from tests.experiments.data.text.test_tokenizers import TEXT


def test_the_merges_of_a_tokenizer_json_are_rows(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(to_huggingface(train_tokenizer(Bpe(vocabulary=270), [TEXT])).to_str())
    first, *_ = traced_encoding(str(path), "the cat", 1)
    assert first == {"word": "'the'", "left": "'h'", "right": "'e'", "rank": 1, "tokens/word": 2}
    with pytest.raises(UserError, match="byte: the steps of encoding are shown for a tokenizer"):
        traced_encoding("byte", "the cat", 1)
    with pytest.raises(UserError, match="nothing is merged in this text"):
        traced_encoding(str(path), "?", 1)


@pytest.mark.parametrize("text", ["ab ab cd", "ab ab " + "cd" * 51], ids=["a rare pair", "a long word"])
def test_the_merges_of_wordpiece_are_those_of_training(text: str) -> None:
    """What occurs once is never merged, and words of more than 100 characters are not trained on."""
    trained = train_tokenizer(WordPiece(vocabulary=1000), [text])
    assert isinstance(trained, WordPieceTokenizer)
    merges = traced([], text, "wordpiece", None, 100, [])
    assert [(merge["left"], merge["right"]) for merge in merges] == [("'a'", "'##b'")]
    assert trained.pieces[-1] == "ab"


def test_the_rounds_of_unigram_are_those_of_training() -> None:
    """Also of a word that is cut because it is longer than 1000 characters."""
    text = "the cat sat on the mat " + "ab" * 600
    rounds = list(rounds_of_texts([text], 280, UnigramTokenizer((), (), byte_fallback=True, pattern="gpt4")))
    rows = traced([], text, "unigram", 280, 100, [])
    assert [row["pieces"] for row in rows] == [len(state.pieces) for state in rounds]
    np.testing.assert_allclose([float(row["tokens"]) for row in rows], [state.tokens for state in rounds])
