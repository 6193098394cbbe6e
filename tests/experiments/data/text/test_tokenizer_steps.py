"""Steps of tokenizers as the command line shows them."""

from pathlib import Path

import pytest

from leadline.experiments.config.tokenizer import Bpe
from leadline.experiments.data.text.tokenizer_steps import traced_encoding
from leadline.experiments.data.text.tokenizers import train_tokenizer
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.formats.huggingface import to_huggingface
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
