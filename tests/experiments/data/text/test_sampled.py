"""Training text that is cut at random: a function of the text, the same text as before, and never held out."""

from pathlib import Path

import numpy as np
import pytest

from leadline.experiments.config.data import TextData
from leadline.experiments.config.tokenizer import Bpe, Unigram
from leadline.experiments.data.source import open_source
from leadline.experiments.data.text.sampled import SampledEncoder, sampled_encoder
from leadline.experiments.data.text.source import TextSource
from leadline.tokenization.bpe.tokenizer import BpeTokenizer, train_bpe
from leadline.tokenization.formats.fast import accelerate
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer
from leadline.tokenization.unigram.training import train_unigram
from tests.refused import refused

TEXTS = ["the cat sat on the mat, the dog sat on the log", "a cat and a dog and another cat", "that mat, that log, the others"]
TOKENIZERS = [train_bpe(TEXTS, 280, pattern="gpt4"), train_unigram(TEXTS, 320, byte_fallback=True, pattern="gpt4")]
EACH = pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=["bpe", "unigram"])


def source_of(corpus: Path, cache: Path, tokenizer: Bpe | Unigram) -> TextSource:
    data = TextData(corpus=(str(corpus),), length=16, held_out=0.2, tokenizer=tokenizer)
    source = open_source(data, cache)
    assert isinstance(source, TextSource)
    return source


@EACH
def test_several_encodings_of_one_text(tokenizer: BpeTokenizer | UnigramTokenizer) -> None:
    """Each decodes to the text, and they are not all alike; whatever texts are encoded beside it."""
    ids = SampledEncoder(tokenizer, 0.3, 5).encode_batch(TEXTS)
    for text, row in zip(TEXTS, ids, strict=True):
        parts = np.split(row, np.flatnonzero(row == tokenizer.specials.eos))
        assert [tokenizer.decode(part) for part in parts] == [text.encode()] * 5
        assert len({part[part != tokenizer.specials.eos].tobytes() for part in parts}) > 1
        np.testing.assert_array_equal(SampledEncoder(tokenizer, 0.3, 5).encode_batch([text])[0], row)


@EACH
def test_the_digest_covers_what_decides_the_ids(tokenizer: BpeTokenizer | UnigramTokenizer) -> None:
    digests = [SampledEncoder(tokenizer, rate, encodings).digest() for rate, encodings in ((0.1, 1), (0.2, 1), (0.1, 2))]
    assert len({*digests, tokenizer.digest()}) == 4


def test_no_dropout_and_a_large_alpha_are_the_encoding_itself() -> None:
    bpe, unigram = TOKENIZERS
    for encoder in (SampledEncoder(bpe, 0.0, 1), SampledEncoder(unigram, 1e4, 1)):
        for text, ids in zip(TEXTS, encoder.encode_batch(TEXTS), strict=True):
            np.testing.assert_array_equal(ids, encoder.tokenizer.encode(text))


def test_what_the_configuration_asks_for() -> None:
    bpe, unigram = map(accelerate, TOKENIZERS)
    assert sampled_encoder(Bpe(vocabulary=280), bpe) is None
    assert sampled_encoder(Unigram(vocabulary=320), unigram) is None
    assert sampled_encoder(Bpe(vocabulary=280, dropout=0.1, encodings=2), bpe) == SampledEncoder(TOKENIZERS[0], 0.1, 2)
    assert sampled_encoder(Unigram(vocabulary=320, sampling=0.0), unigram) == SampledEncoder(TOKENIZERS[1], 0.0, 1)


@pytest.mark.parametrize(
    ("plain", "sampled"),
    [
        (Bpe(vocabulary=290), Bpe(vocabulary=290, dropout=0.5, encodings=2)),
        (Unigram(vocabulary=320), Unigram(vocabulary=320, sampling=0.1, encodings=2)),
    ],
    ids=["bpe", "unigram"],
)
def test_only_what_is_trained_on_is_cut_at_random(
    corpus: Path, tmp_path: Path, plain: Bpe | Unigram, sampled: Bpe | Unigram
) -> None:
    """The tokenizer is the same, held-out text too; training text is there twice, and longer."""
    before, after = source_of(corpus, tmp_path, plain), source_of(corpus, tmp_path, sampled)
    assert before.tokenizer.digest() == after.tokenizer.digest()
    assert before.text.digest != after.text.digest
    (one,), (other,) = before.text.parts, after.text.parts
    np.testing.assert_array_equal(one.held_out, other.held_out)
    assert len(other.train) > 2 * len(one.train)
    eos = before.tokenizer.specials.eos
    ends = np.flatnonzero(other.train == eos)
    assert len(ends) == 2 * one.train_documents
    assert before.tokenizer.decode(other.train[: ends[0]]) == before.tokenizer.decode(other.train[ends[0] + 1 : ends[1]])
    again = source_of(corpus, tmp_path, sampled)
    np.testing.assert_array_equal(after.inputs(1, 3, 2), again.inputs(1, 3, 2))


test_encodings_without_chance_are_refused = refused(
    (lambda: Bpe(vocabulary=280, encodings=2), "all the same without dropout"),
    (lambda: Unigram(vocabulary=280, encodings=2), "all the same without sampling"),
)
