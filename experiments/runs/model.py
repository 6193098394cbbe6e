"""A trained model that is asked for logits, statistics, sinks, attention and text.

Whatever is measured here is measured by the functions that measure studies (leadline.experiments.measure).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.runs.forward import Ids, Sinks, applied, maps_of, sinks_of, texts_of
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.training.generation import Request, generated, prompt_ids, text_tokenizer
from leadline.experiments.training.saved import TrainedModel
from leadline.experiments.training.targets import Target, transduced
from leadline.model.block import LayerTrace
from leadline.model.decoder import Decoder, DecoderConfig
from leadline.model.generate import Policy
from leadline.model.transduce import LENGTH_PENALTY
from leadline.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A trained model. `leadline.load` makes one of published files, `leadline.open` a `Run` of a run.

    Ids are [T] for one text or [B, T] for several of one length, from 0 to below `vocabulary_size`. Arrays come back as NumPy
    arrays on the host; layers and heads count from 0, as their axes do. A program is compiled for each shape of ids.

    Attributes:
        saved: the configuration of the model, its structure and its weights.
    """

    saved: TrainedModel

    @property
    def configuration(self) -> ModelConfig:
        """The sizes and mechanisms, as in the TOML of a study."""
        return self.saved.model

    @property
    def structure(self) -> DecoderConfig:
        """What `leadline.model.decoder.apply_decoder` compiles in."""
        return self.saved.cfg

    @property
    def weights(self) -> Decoder:
        """The weights, stacked over layers."""
        return self.saved.params

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of a model of text; None for a task of ids."""
        return self.saved.tokenizer

    @property
    def vocabulary_size(self) -> int:
        """V, ids that the model knows; some of them may stand for no text."""
        return self.saved.cfg.vocabulary

    def encode(self, text: str) -> Int[np.ndarray, " T"]:
        """The ids of a text, after BOS where the model was trained with one.

        Raises:
            UserError: for a model of a task, an empty text, and characters that the tokenizer does not know.
        """
        return prompt_ids(self.saved, text)

    def decode(self, ids: Sequence[int] | Int[np.ndarray | Array, " T"]) -> str:
        """The text of ids; special tokens add nothing, and a character that is not whole is U+FFFD.

        Raises:
            UserError: for a model of a task, and ids that stand for no text.
        """
        try:
            return text_tokenizer(self.saved).decode(np.asarray(ids)).decode(errors="replace")
        except ValueError as error:
            raise UserError(str(error)) from error

    def logits(self, ids: Ids) -> Float[np.ndarray, "*B T V"]:
        """The logits of the token after each token, [T, V] or [B, T, V]. The loss is that of log_softmax(logits)[target].

        Raises:
            UserError: for ids that the model does not know, and texts that are longer than its positions.
        """
        return apply(self, ids)[0]

    def sinks(self, ids: Ids, *, token: int = 1, epsilon: float = 0.3) -> Sinks:
        """Attention sinks of every layer and head on these texts.

        Args:
            ids: [T] or [B, T].
            token: k of the sink rate, from 1.
            epsilon: ε of the sink rate.

        Raises:
            UserError: as `logits`, and for a token that is not in the texts, or an ε that is not between 0 and 1.
        """
        return sinks_of(self.saved, texts_of(self.saved, ids), token, epsilon)

    def attention_map(self, ids: Ids, layer: int, head: int) -> Float[np.ndarray, "T T"]:
        """The attention of query i (row) to key j (column) in one head, on one text; the sink logit has the rest of a row.

        Raises:
            UserError: as `logits`, for several texts, for a layer or a head that is not there, and for a model whose queries
                each rotate all keys by a table of their own.
        """
        texts, cfg = texts_of(self.saved, ids), self.structure
        if len(texts) > 1:
            raise UserError(f"attention_map is of one text, ids [T], not of {len(texts)}: ids[0] is the first")
        if not (0 <= layer < cfg.layers and 0 <= head < cfg.block.heads):
            raise UserError(
                f"layer {layer}, head {head}: there are layers 0 to {cfg.layers - 1}, heads 0 to {cfg.block.heads - 1}"
            )
        return maps_of(self.saved, texts)[layer, head]

    def generate(
        self,
        prompt: str,
        tokens: int = 64,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        seed: int = 0,
        policy: Policy = Policy(),
    ) -> str:
        """The text that follows a prompt, at most `tokens` tokens of it, to the end of a document.

        Args:
            prompt: the text to go on from.
            tokens: greatest number of tokens.
            temperature: of the softmax; 0 takes the likeliest token.
            top_k: draws from the k likeliest tokens; None is all.
            top_p: draws from the fewest tokens whose probabilities sum to p.
            seed: of what is drawn.
            policy: what the model remembers, as in `leadline.Policy(window=64, initial_tokens=4)`.

        Raises:
            UserError: for a model of a task, and for a prompt, a policy or a way of sampling that cannot be.
        """
        request = Request((prompt,), tokens, temperature, top_k, top_p, seed, policy)
        return "".join(piece.text for (piece,) in generated(self.saved, request))

    def transduce(
        self, source: str, *, beams: int = 1, tokens: int | None = None, length_penalty: float = LENGTH_PENALTY
    ) -> tuple[Target, ...]:
        """The best targets of a source, the best first: those that an encoder–decoder finds by beam search.

        Hypotheses are compared by log P / ((5 + tokens) / 6)^α (Wu et al. 2016, arXiv:1609.08144, equation 14).

        Args:
            source: symbols of the task with blanks between them: "7 0 3" of strings, "twenty one" of spelled-out numbers.
            beams: hypotheses that are kept at each step; 1 is greedy search.
            tokens: most tokens of a target, its end included; None is as many as the longest target of training has, or the
                longest source where that is longer.
            length_penalty: α; 0 compares log-probabilities.

        Raises:
            UserError: for a model without an encoder, a source that it cannot read, and more tokens than it has positions for.
        """
        (targets,) = transduced(self.saved, (source,), beams=beams, tokens=tokens, length_penalty=length_penalty)
        return targets

    def __repr__(self) -> str:
        cfg, model = self.structure, self.configuration
        return (
            f"Model {self.saved.name}: layers {cfg.layers}, heads {cfg.block.heads}, width {cfg.block.width}, "
            f"{model.position.kind}, {cfg.vocabulary} ids, {self.saved.length} tokens"
        )


def apply(
    model: Model, ids: Ids, measure: Callable[[LayerTrace], Any] | None = None
) -> tuple[Float[np.ndarray, "*B T V"], Any]:
    """The logits of a model, and statistics of each layer, in one pass over the texts.

    A program is compiled for each shape of ids and each function: define `measure` once.

    Args:
        model: of `leadline.load` or `leadline.open`.
        ids: [T] or [B, T].
        measure: what is kept of each layer, a tree of JAX arrays. Its argument has the rotated `query` [B, T, N, H] and `key`
            [B, T, K, H], `value` [B, T, K, H] and `value_norm` [B, T, K], the `residual` stream after the layer [B, T, D], and
            `attention` (leadline.model.block.LayerTrace).

    Returns:
        The logits of the token after each token, [T, V] or [B, T, V], and what `measure` returns, stacked over layers [L, …];
        None without it.

    Raises:
        UserError: for ids that the model does not know, and texts that are longer than its positions.

    Examples:
        >>> import jax.numpy as jnp
        >>> run = leadline.open("results/sinks", arm="softmax", seed=50)
        >>> ids = run.held_out()[:, :-1]
        >>> logits, norms = leadline.apply(run, ids, lambda layer: jnp.linalg.norm(layer.residual, axis=-1))
        >>> norms.shape == (run.structure.layers, *ids.shape)
        True
    """
    logits, measured = applied(model.saved, texts_of(model.saved, ids), measure)
    return logits.reshape(*np.shape(ids), -1), measured
