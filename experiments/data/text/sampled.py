"""Training text that is cut at random: BPE-dropout (Provilkov et al. 2020) and subword regularization (Kudo 2018)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int32

from leadline.experiments.config.tokenizer import Bpe, TokenizerConfig, Unigram
from leadline.tokenization.bpe.tokenizer import BpeTokenizer
from leadline.tokenization.formats.fast import FastTokenizer
from leadline.tokenization.ids import definition_digest
from leadline.tokenization.normalization import to_utf8
from leadline.tokenization.tokenizer import Specials, Tokenizer
from leadline.tokenization.unigram.tokenizer import UnigramTokenizer

# Part of the digest: raise it whenever the same text would be cut otherwise.
SAMPLED = 1


@dataclass(frozen=True)
class SampledEncoder:
    """Encodes each text `encodings` times at random, EOS between, as a function of the text alone.

    So token files of it hold each document in several segmentations, which the windows of an epoch draw from, and a batch stays
    a function of (seed, step).

    Args:
        tokenizer: BPE, where each merge is left out with probability `rate`, or a unigram model, where a segmentation x has
            probability proportional to P(x)^rate.
        rate: of dropout, or alpha.
        encodings: how many of each text.
    """

    tokenizer: BpeTokenizer | UnigramTokenizer
    rate: float
    encodings: int

    @property
    def name(self) -> str:
        return self.tokenizer.name

    @property
    def vocabulary_size(self) -> int:
        return self.tokenizer.vocabulary_size

    @property
    def specials(self) -> Specials:
        return self.tokenizer.specials

    def encode_batch(self, texts: Sequence[str | bytes]) -> list[Int32[np.ndarray, "..."]]:
        """All encodings of each text, one after another."""
        return [self._encodings(text) for text in texts]

    def digest(self) -> str:
        """SHA-256 of all that decides the ids of a text."""
        return definition_digest(
            {"sampled": SAMPLED, "tokenizer": self.tokenizer.digest(), "rate": self.rate, "encodings": self.encodings}
        )

    def _encodings(self, text: str | bytes) -> Int32[np.ndarray, "T"]:
        generator = np.random.default_rng(list(hashlib.sha256(to_utf8(text)).digest()))
        eos = np.array([self.specials.eos], np.int32)
        parts = [part for _ in range(self.encodings) for part in (self._encoding(text, generator), eos)]
        return np.concatenate(parts[:-1])

    def _encoding(self, text: str | bytes, generator: np.random.Generator) -> Int32[np.ndarray, "T"]:
        if isinstance(self.tokenizer, BpeTokenizer):
            return self.tokenizer.encode_dropped(text, self.rate, generator)
        return self.tokenizer.sample(text, generator, self.rate)


def sampled_encoder(cfg: TokenizerConfig | None, tokenizer: Tokenizer) -> SampledEncoder | None:
    """What encodes the training text at random, as the configuration asks for it; None where it does not.

    Args:
        cfg: the configuration of the tokenizer.
        tokenizer: trained by it.
    """
    plain = tokenizer.wrapped if isinstance(tokenizer, FastTokenizer) else tokenizer
    match cfg, plain:
        case Bpe(dropout=rate), BpeTokenizer() if rate > 0:
            return SampledEncoder(plain, rate, cfg.encodings)
        case Unigram(sampling=float(alpha)), UnigramTokenizer():
            return SampledEncoder(plain, alpha, cfg.encodings)
    return None
