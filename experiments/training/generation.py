"""A trained model taken from its record, and text from it."""

import codecs
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import ValidationError

from leadline.experiments.config.data import TextData
from leadline.experiments.config.study import Arm
from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.config.to_tables import tables
from leadline.experiments.data.source import vocabulary_size
from leadline.experiments.records.store import read_record
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.training import checkpoint
from leadline.model.decoder import Decoder, DecoderConfig, init_decoder
from leadline.model.generate import Policy, begin, decode, layers_of
from leadline.model.mesh import make_mesh
from leadline.model.sampling import sampling
from leadline.tokenization.formats.saving import load
from leadline.tokenization.tokenizer import Tokenizer

# Tokens of one call of the program: what a reader waits for.
PIECE = 16


@dataclass(frozen=True)
class Saved:
    """A model as a study left it: arm, structure, weights on the host, last step; the tokenizer, None for a task of ids."""

    arm: Arm
    cfg: DecoderConfig
    params: Decoder
    tokenizer: Tokenizer | None
    step: int


@dataclass(frozen=True)
class Request:
    """What text is wanted of it."""

    prompt: str
    tokens: int
    temperature: float
    top_k: int | None
    top_p: float
    seed: int
    policy: Policy


@dataclass(frozen=True)
class Piece:
    """Some more tokens, and the text that they add; the bytes of a character that is not whole yet wait for the next piece."""

    ids: tuple[int, ...]
    text: str


def open_saved(folder: Path) -> Saved:
    """The last whole checkpoint of `results/STUDY/ARM-HASH/sSEED`.

    Raises:
        UserError: for a folder without record, checkpoint or its tokenizer, and for one that another version wrote.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; name one of a run, as in results/STUDY/ARM-HASH/sSEED")
    record = read_record(folder)
    try:
        arm = Arm.model_validate(record.config)
    except ValidationError as error:
        raise UserError(f"{folder}: this version does not know the configuration of this record; run the arm again") from error
    checkpoints = folder / "checkpoint"
    step, notes = checkpoint.latest(checkpoints)
    if step is None:
        reason = notes[0] if notes else "there is no checkpoint" + (", the arm diverged" if record.message else "")
        raise UserError(f"{folder}: {reason}; delete the folder and run the arm again")
    cfg = decoder_config(arm.model, vocabulary_size(arm.data), arm.data.length)
    tokenizer = _tokenizer(checkpoints / "tokenizer", checkpoint.extra_of(checkpoints, step)["tokenizer"])
    with jax.set_mesh(make_mesh()):
        shapes = jax.eval_shape(lambda: init_decoder(jax.random.key(0), cfg, sink_logit=jnp.float32(0)))
    template = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    return Saved(arm, cfg, checkpoint.restore(checkpoints, step, template), tokenizer, step)


def _tokenizer(folder: Path, digest: str | None) -> Tokenizer | None:
    """The tokenizer of a checkpoint; None where the weights were trained without one."""
    if digest is None:
        return None
    try:
        tokenizer = load(folder)
    except ValueError as error:
        raise UserError(str(error)) from error
    if digest != tokenizer.digest():
        raise UserError(f"{folder}: not the tokenizer that these weights were trained with; restore it")
    return tokenizer


def text_tokenizer(saved: Saved) -> Tokenizer:
    """The tokenizer of a model of text.

    Raises:
        UserError: for a model of a task.
    """
    if saved.tokenizer is None:
        kind = saved.arm.data.kind
        raise UserError(f"{saved.arm.name}: {kind} is a task of ids without a tokenizer; name a model that was trained on text")
    return saved.tokenizer


def prompt_ids(saved: Saved, text: str) -> np.ndarray:
    """The ids of a prompt, behind BOS where the model knows no text without.

    Raises:
        UserError: for a model of a task, an empty prompt, and one with characters that the tokenizer cannot express.
    """
    tokenizer = text_tokenizer(saved)
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
    data = saved.arm.data
    starts = [tokenizer.specials.bos] if isinstance(data, TextData) and data.bos == "fixed" else []
    return np.asarray([*starts, *ids], np.int32)


def generated(saved: Saved, request: Request) -> Iterator[Piece]:
    """The text behind a prompt, in pieces of PIECE tokens by one program, to `tokens` or the end of a document.

    Raises:
        UserError: for a prompt, a policy or a way of sampling that cannot be.
    """
    arm, tokenizer, policy = saved.arm, text_tokenizer(saved), request.policy
    prompt = prompt_ids(saved, request.prompt)
    room = len(prompt) + -(-request.tokens // PIECE) * PIECE
    whole, known = codecs.getincrementaldecoder("utf-8")("replace"), prompt.tolist()
    shown = len(tokenizer.decode(known))
    with jax.set_mesh(make_mesh()):
        params = jax.tree.map(jnp.asarray, saved.params)
        try:
            rows = tables(arm.model, arm.original_length, room if policy.window is None else arm.data.length)
            drawn = sampling(request.temperature, request.top_k, request.top_p)
            text = begin(params, jnp.asarray(prompt[None]), rows, saved.cfg, policy, room)
        except ValueError as error:
            raise UserError(str(error)) from error
        layers, key = jax.jit(layers_of)(params, rows), jax.random.key(request.seed)
        for left in range(request.tokens, 0, -PIECE):
            tokens, text = decode(params, layers, text, PIECE, saved.cfg, drawn, key)
            run = np.asarray(tokens)[0, :left].tolist()
            ends = tokenizer.specials.eos in run
            run = list(itertools.takewhile(lambda token: token != tokenizer.specials.eos, run))
            known += [token for token in run if token < tokenizer.vocabulary_size]  # others stand for no text
            raw = tokenizer.decode(known)
            yield Piece(tuple(run), whole.decode(raw[shown:], final=ends))
            shown = len(raw)
            if ends:
                return
    yield Piece((), whole.decode(b"", final=True))
