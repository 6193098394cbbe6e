"""Targets that a trained encoder–decoder finds for sources, by greedy and beam search."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from leadline.experiments.config.data import PADDING, TransductionData
from leadline.experiments.config.to_tables import tables
from leadline.experiments.data.transduction import BEGIN, END, source_ids, text_of
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.training.saved import Saved, TrainedModel
from leadline.model.encoder_decoder import EncoderDecoderConfig
from leadline.model.mesh import make_mesh
from leadline.model.transduce import LENGTH_PENALTY, Search, beam_search, penalised


@dataclass(frozen=True)
class Target:
    """One hypothesis of a search.

    Attributes:
        text: the symbols among its tokens, with blanks between them.
        ids: its tokens without the ending one.
        log_probability: of its tokens [nats].
        score: the log-probability with the length penalty, by which hypotheses are compared.
        ended: whether it came to its end within the tokens that it was allowed.
    """

    text: str
    ids: tuple[int, ...]
    log_probability: float
    score: float
    ended: bool


def transduced(
    trained: TrainedModel,
    sources: Sequence[str],
    *,
    beams: int = 1,
    tokens: int | None = None,
    length_penalty: float = LENGTH_PENALTY,
) -> list[tuple[Target, ...]]:
    """The best targets of each source, the best first: at most `beams`, of log P / ((5 + tokens) / 6)^α (Wu et al. 2016).

    Args:
        trained: an encoder–decoder of a run.
        sources: symbols of the task with blanks between them (`data.transduction.source_ids`).
        beams: hypotheses that are kept at each step; 1 is greedy search.
        tokens: most tokens of a target, its end included; None is as many as the longest target of training has, or the
            longest source where that is longer.
        length_penalty: α; 0 compares log-probabilities.

    Raises:
        UserError: for a model that is no encoder–decoder of a run, a source that it cannot read, and more tokens than it has
            positions for.
    """
    data = trained.arm.data if isinstance(trained, Saved) else None
    if not isinstance(trained.cfg, EncoderDecoderConfig) or not isinstance(data, TransductionData):
        raise UserError(f"{trained.name} has no encoder, so it has no sources; name a run with model.encoder")
    if beams < 1:
        raise UserError(f"beams = {beams}: a search keeps at least one hypothesis")
    framed = [[BEGIN, *source_ids(source, data), END] for source in sources]
    width = max(map(len, framed))
    tokens = tokens or max(data.half(data.size), width) - 1
    padded = np.array([ids + [PADDING] * (width - len(ids)) for ids in framed], np.int32)
    with jax.set_mesh(make_mesh()):
        rows = tables(trained.model, trained.original_length, 2 * max(width, tokens))
        params, search = jax.tree.map(jnp.asarray, trained.params), Search(BEGIN, END, tokens)
        found = beam_search(params, jnp.asarray(padded), rows, trained.cfg, search, width=beams, alpha=length_penalty)
        scores = penalised(found.log_probability, found.length, length_penalty)
        ids, each, scores, ended = jax.device_get((found.tokens, found.log_probability, scores, found.ended))
    return [
        tuple(
            _target(ids[n, w].tolist(), float(each[n, w]), float(scores[n, w]), bool(ended[n, w]), data)
            for w in range(beams)
            if np.isfinite(each[n, w])  # there may be fewer hypotheses than beams
        )
        for n in range(len(sources))
    ]


def _target(ids: list[int], log_probability: float, score: float, ended: bool, data: TransductionData) -> Target:
    symbols = tuple(i for i in ids if i not in (PADDING, END))
    return Target(text_of(symbols, data), symbols, log_probability, score, ended)
