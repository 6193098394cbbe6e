"""Text from a trained model."""

import codecs
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from leadline.experiments.config.to_tables import tables
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.training.saved import TrainedModel
from leadline.model.generate import Policy, begin, decode, layers_of
from leadline.model.mesh import make_mesh
from leadline.model.sampling import sampling
from leadline.tokenization.tokenizer import Tokenizer

# Tokens of one call of the program: what a reader waits for.
PIECE = 16


@dataclass(frozen=True)
class Request:
    """What text is wanted: that after each prompt, in one batch."""

    prompts: tuple[str, ...]
    tokens: int
    temperature: float
    top_k: int | None
    top_p: float
    seed: int
    policy: Policy


@dataclass(frozen=True)
class Piece:
    """Some more tokens of a text, and what they add to it; `last` where the text ends with them."""

    ids: tuple[int, ...]
    text: str
    last: bool


class Text:
    """The text after a prompt, as its tokens come. The bytes of a character that is not whole yet wait for the next tokens."""

    def __init__(self, tokenizer: Tokenizer, prompt: Int[np.ndarray, " T"]) -> None:
        self._tokenizer, self._known = tokenizer, prompt.tolist()
        self._shown = len(tokenizer.decode(self._known))
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")
        self.over = False

    def read(self, tokens: Sequence[int], *, last: bool) -> Piece:
        """What more tokens add, up to the end of the document; nothing after that."""
        eos = self._tokenizer.specials.eos
        run = [] if self.over else list(itertools.takewhile(lambda token: token != eos, tokens))
        self.over = self.over or last or len(run) < len(tokens)
        self._known += [token for token in run if token < self._tokenizer.vocabulary_size]  # others stand for no text
        raw = self._tokenizer.decode(self._known)
        added, self._shown = raw[self._shown :], len(raw)
        return Piece(tuple(run), self._characters.decode(added, final=self.over), self.over)


def text_tokenizer(trained: TrainedModel) -> Tokenizer:
    """The tokenizer of a model of text.

    Raises:
        UserError: for a model without one.
    """
    if trained.tokenizer is None:
        raise UserError(f"{trained.name} has no tokenizer, as a model of a task of ids; name a model of text")
    return trained.tokenizer


def prompt_ids(trained: TrainedModel, text: str) -> Int[np.ndarray, " T"]:
    """The ids of a prompt, after BOS where the model knows no text without.

    Raises:
        UserError: for a model of a task, an empty prompt, and one with characters that the tokenizer cannot express.
    """
    tokenizer = text_tokenizer(trained)
    if not text:
        raise UserError("the prompt is empty: there is nothing to go on from")
    try:
        ids, offsets = tokenizer.encode_with_offsets(text)
    except ValueError as error:
        raise UserError(f"the prompt cannot be expressed by the tokenizer {tokenizer.name!r}: {error}") from error
    unknown = [place for place, token in zip(offsets, ids, strict=True) if token == tokenizer.specials.unk]
    if unknown:
        raw = text.encode()
        named = dict.fromkeys(raw[start:stop].decode(errors="replace") for start, stop in unknown)
        raise UserError(f"the tokenizer {tokenizer.name!r} does not know {', '.join(map(repr, named))}; leave them out")
    return np.asarray([*([tokenizer.specials.bos] if trained.add_bos else []), *ids], np.int32)


def generated(trained: TrainedModel, request: Request) -> Iterator[tuple[Piece, ...]]:
    """The texts after the prompts, in pieces of PIECE tokens by one program, to `tokens` or the ends of their documents.

    Prompts with fewer tokens than the longest are padded on the left, so that each text is that of its prompt alone. The factor
    of a dynamic context extension follows the longest text.

    Yields:
        A piece of each text.

    Raises:
        UserError: for a prompt, a policy or a way of sampling that cannot be.
    """
    tokenizer, policy = text_tokenizer(trained), request.policy
    prompts = [prompt_ids(trained, prompt) for prompt in request.prompts]
    texts = [Text(tokenizer, prompt) for prompt in prompts]
    longest = max(map(len, prompts))
    starts = np.asarray([longest - len(prompt) for prompt in prompts], np.int32)
    padded = np.stack([np.pad(prompt, (start, 0)) for prompt, start in zip(prompts, starts, strict=True)])
    room = longest + request.tokens  # the rest of the last piece has none: it overwrites the last slot, and is not read
    with jax.set_mesh(make_mesh()):
        params = jax.tree.map(jnp.asarray, trained.params)
        try:
            rows = tables(trained.model, trained.original_length, room if policy.window is None else trained.length)
            drawn = sampling(request.temperature, request.top_k, request.top_p)
            first_tokens = jnp.asarray(starts) if starts.any() else None
            text = begin(params, jnp.asarray(padded), rows, trained.cfg, policy, room, starts=first_tokens)
        except ValueError as error:
            raise UserError(str(error)) from error
        layers, key = jax.jit(layers_of)(params, rows), jax.random.key(request.seed)
        for left in range(request.tokens, 0, -PIECE):
            tokens, text = decode(params, layers, text, PIECE, trained.cfg, drawn, key)
            runs = np.asarray(tokens)[:, :left].tolist()
            yield tuple(written.read(run, last=left <= PIECE) for written, run in zip(texts, runs, strict=True))
            if all(written.over for written in texts):
                return
