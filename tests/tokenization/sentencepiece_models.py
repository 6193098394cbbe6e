"""Small models that the sentencepiece library trains."""

import io
from base64 import b64encode
from collections.abc import Iterable

import sentencepiece

from leadline.tokenization.formats.sentencepiece import SentencePieceTokenizer

# What leaves text as it is, and what knows every text.
PLAIN = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
BYTEWISE = {"byte_fallback": True, "pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}


def trained_bytes(texts: Iterable[str], size: int, **options) -> bytes:
    """The file of a model, as the library would have it but for the options."""
    model = io.BytesIO()
    defaults = {"model_type": "unigram", "num_threads": 1, "minloglevel": 2, "hard_vocab_limit": False}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=size, **defaults | options
    )
    return model.getvalue()


def tokenizer_of(model: bytes) -> SentencePieceTokenizer:
    return SentencePieceTokenizer(b64encode(model).decode())


def trained_model(texts: Iterable[str], size: int, **options) -> SentencePieceTokenizer:
    return tokenizer_of(trained_bytes(texts, size, **options))
