"""What is measured of language models with vocabularies of their own: bits per byte, and how the vocabulary is used."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int

from experiments.config.measure import VocabularyMeasure
from experiments.config.study import Arm
from experiments.data.source import TextSource
from experiments.evaluate import TOKENS_AT_ONCE, Statistics, evaluate_tokens, in_batches
from experiments.group import Point
from experiments.measure.perplexity import mean_loss
from experiments.measure.vocabulary import bits_per_byte, rare_shares, token_sizes, unknown_shares
from experiments.population import in_rounds
from experiments.position_tables import tables as tables_of
from model.decoder import Decoder, DecoderConfig
from model.positions.tables import PositionTables

Held = tuple[Int[np.ndarray, "C B ids"], Float[np.ndarray, "C B T"]]


class VocabularyMeasurer:
    """The loss and bits per byte of the same held-out bytes, whatever they are cut into."""

    def batches(self, source: TextSource, measure: VocabularyMeasure) -> Held:
        _windows(source, measure.bytes)  # too little held-out text is said at the beginning
        return _sized(source, source.held_out(source.data.length, measure.sequences * source.data.length))

    def point(
        self,
        params: Decoder,
        tables: PositionTables,
        batches: tuple[Int[Array, "C B ids"], Float[Array, "C B T"]],
        shared: None,  # noqa: ARG002
        model: DecoderConfig,
        measure: VocabularyMeasure,  # noqa: ARG002
    ) -> Statistics:
        losses = _losses(params, tables, batches[0], model)
        return {"loss": mean_loss(losses), "bits_per_byte": bits_per_byte(losses, batches[1])}

    def final(
        self,
        arms: Sequence[Arm],
        params: Sequence[Decoder],
        source: TextSource,
        model: DecoderConfig,
        programs: list[str],
    ) -> list[Point]:
        """On the first `measure.bytes` bytes of the held-out text."""
        measure: Any = arms[0].measure
        ids, sizes = _sized(source, _windows(source, measure.bytes))
        own = [
            (weights, tables_of(arm.model, arm.original_length, arm.data.length))
            for weights, arm in zip(params, arms, strict=True)
        ]

        def job(params: Decoder, row: PositionTables, ids: Int[Array, "C B ids"]) -> Float[Array, "C B T"]:
            return _losses(params, row, ids, model)

        found = in_rounds("measure", job, own, ids, programs, ids.shape[1], model.block.width)
        used = _use(source, model)
        within = np.cumsum(_sizes(source, ids).ravel()) <= measure.bytes
        return [used | _of_losses(losses.ravel()[within], sizes.ravel()[within]) for losses in found]


def _losses(params: Decoder, tables: PositionTables, ids: Int[Array, "C B ids"], model: DecoderConfig) -> Float[Array, "C B T"]:
    return evaluate_tokens(params, tables, ids, model, of_layer=lambda trace, tokens: {})[1]  # noqa: ARG005


def _sizes(source: TextSource, ids: Int[np.ndarray, "*W ids"]) -> Int[np.ndarray, "*W T"]:
    """Bytes of every target."""
    return token_sizes(source.tokenizer, source.vocabulary)[ids[..., 1:]]


def _sized(source: TextSource, windows: Int[np.ndarray, "W ids"]) -> Held:
    """The windows in batches, and the bytes of their targets: NaN where the tokenizer loses text, which then has no bits."""
    ids = in_batches(windows, TOKENS_AT_ONCE)
    lost = 0.0 if source.tokenizer.lossless else math.nan
    return ids, (_sizes(source, ids) + lost).astype(np.float32)


def _windows(source: TextSource, count_bytes: int) -> Int[np.ndarray, "W ids"]:
    """The first windows of the held-out text whose targets have that many bytes. UserError where it has fewer."""
    length = source.data.length
    wanted = math.ceil(count_bytes / (_bytes_per_token(source) * length))
    while True:
        windows = source.held_out(length, wanted * length)
        covered = np.cumsum(_sizes(source, windows).sum(axis=1))
        if covered[-1] >= count_bytes:
            return windows[: int(np.searchsorted(covered, count_bytes)) + 1]
        wanted += 1 + wanted // 20


def _bytes_per_token(source: TextSource) -> float:
    return sum(part.held_out_bytes for part in source.text.parts) / source.text.held_out_tokens


def _use(source: TextSource, model: DecoderConfig) -> Point:
    seen, held_out = (
        sum((np.bincount(ids, minlength=source.vocabulary) for ids in side), np.zeros(source.vocabulary, np.int64))
        for side in ([part.train for part in source.text.parts], [part.held_out for part in source.text.parts])
    )
    numbers = {
        "vocabulary": source.tokenizer.vocabulary_size,
        "bytes_per_token": _bytes_per_token(source),
        "embedding_weights": (1 if model.tied else 2) * model.vocabulary * model.block.width,
        "training_tokens": source.text.train_tokens,
        **rare_shares(seen, held_out),
        **unknown_shares(source.domains, source.tokenizer.specials.unk),
    }
    return {name: np.asarray(value, np.float64) for name, value in numbers.items()}


def _of_losses(losses: Float[np.ndarray, " M"], sizes: Float[np.ndarray, " M"]) -> Point:
    bits = np.sum(losses, dtype=np.float64) / (math.log(2) * np.sum(sizes, dtype=np.float64))
    return {"loss": np.asarray(np.mean(losses, dtype=np.float64)), "bits_per_byte": np.asarray(bits)}
