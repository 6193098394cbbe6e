"""How a vocabulary is used: bytes a token, ids that are hardly seen, words that it does not know."""

import math
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tokenization.tokenizer import Tokenizer

# A token that is seen less often in training is rare: its embedding has hardly been trained.
RARE = 10


def token_sizes(tokenizer: Tokenizer, ids: int) -> Int[np.ndarray, "{ids}"]:
    """Bytes of every id of the tokenizer, 0 for specials and for ids up to `ids` that it does not use."""
    known = min(ids, tokenizer.vocabulary_size)
    sizes = np.zeros(ids, np.int64)
    sizes[:known] = [len(tokenizer.token_bytes(i)) for i in range(known)]
    return sizes


def bits_per_byte(losses: Float[Array, "*W T"], sizes: Float[Array, "*W T"]) -> Float[Array, ""]:
    """sum of losses [nats] / (ln 2 · bytes of their targets): comparable whatever the tokens are.

    A target without bytes (EOS) adds its loss and no byte: what a model spends on the ends of documents counts.
    """
    return jnp.sum(losses) / (math.log(2) * jnp.sum(sizes))


UNITS = {
    "bits_per_byte": "bits",
    "vocabulary": "ids",
    "bytes_per_token": "bytes",
    "embedding_weights": "weights",
    "training_tokens": "tokens",
    "rare_ids": "share",
    "rare_tokens": "share",
    "unknown_code": "share",
    "unknown_prose": "share",
}


def rare_shares(train: Int[np.ndarray, " V"], held_out: Int[np.ndarray, " V"]) -> dict[str, float]:
    """From the counts of every id: the share of ids that training sees less than RARE times, and of such tokens held out."""
    rare = train < RARE
    return {"rare_ids": float(np.mean(rare)), "rare_tokens": float(np.sum(held_out[rare]) / np.sum(held_out))}


def unknown_shares(domains: Mapping[str, Int[np.ndarray, " ids"]], unk: int | None) -> dict[str, float]:
    """The share of UNK among the tokens of each domain: its out-of-vocabulary rate."""
    return {f"unknown_{domain}": 0.0 if unk is None else float(np.mean(ids == unk)) for domain, ids in domains.items()}
