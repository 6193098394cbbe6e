"""Where a step's tokens come from: a stretch of text, or a task that the device draws for itself.

A source splits the work in two: `inputs(seed, step)` on the host, small arrays that depend on nothing else; `sample(inputs,
shared)` inside the compiled step, the ids [B, T + 1] that they stand for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Int32, UInt32

from experiments.config.data import BackcopyData, Data, MixedData, Mixture, MixturePart, RetrievalData, TextData
from experiments.data.backcopy import Backcopy, make_task, sample
from experiments.data.batches import first_tokens, held_out_windows
from experiments.data.corpus import Split, split, stdlib_documents, text_documents
from experiments.data.domains import domain_tokens
from experiments.data.held_out import HeldOut
from experiments.data.mixed import MixedSource, recall_task
from experiments.data.mixture import WeightedText, shares_of
from experiments.data.retrieval.source import RetrievalSource, retrieval_tasks
from experiments.data.sample import HELD_OUT_SEED, Sample
from experiments.data.tokens import Report, token_files
from experiments.data.trained import trained_tokenizer
from experiments.errors import UserError
from tokenization.byte import ByteTokenizer
from tokenization.fast import FastTokenizer
from tokenization.tokenizer import Tokenizer


class Source(Protocol):
    """What training needs to know of its data."""

    @property
    def vocabulary(self) -> int: ...

    @property
    def shared(self) -> Any:
        """Arrays that every member's `sample` gets."""
        ...

    @property
    def described(self) -> dict[str, Any]:
        """Name, digest and sizes, for the record."""
        ...

    @property
    def tokenizer(self) -> Tokenizer | None:
        """What gives text its ids; None for a task that draws its own."""
        ...

    def inputs(self, seed: int, step: int, batch: int) -> Any: ...

    def sample(self, inputs: Any, shared: Any, batch: int) -> Sample: ...


@dataclass(frozen=True)
class TextSource:
    data: TextData
    text: WeightedText
    tokenizer: Tokenizer
    domains: Mapping[str, Int32[np.ndarray, " ids"]]  # held-out tokens of code and of prose

    @property
    def vocabulary(self) -> int:
        return vocabulary_size(self.data)

    @property
    def shared(self) -> None:
        return None

    @property
    def described(self) -> dict[str, Any]:
        corpus = self.data.corpus
        return {
            "name": corpus.model_dump(mode="json") if isinstance(corpus, Mixture) else _listed(corpus),
            "digest": self.text.digest,
            "tokenizer": self.tokenizer.name,
            "tokenizer_digest": self.tokenizer.digest(),
            "train_tokens": self.text.train_tokens,
            "held_out_tokens": self.text.held_out_tokens,
        }

    def inputs(self, seed: int, step: int, batch: int) -> Int32[np.ndarray, "B T"]:
        first = first_tokens(self.data.bos, self.tokenizer)
        return self.text.batch(seed, step, batch, self.data.length, first)

    def sample(self, inputs: Int[Array, "B T"], shared: None, batch: int) -> Sample:  # noqa: ARG002
        return Sample(inputs)

    def held_out(self, length: int, count_tokens: int) -> Int32[np.ndarray, "B T"]:
        """Non-overlapping windows [count // length, length + 1], the same for every arm and seed."""
        first = first_tokens(self.data.bos, self.tokenizer)
        return self.text.held_out(length, count_tokens, first)

    def by_domain(self, length: int, windows: int) -> dict[str, Int32[np.ndarray, "B T"]]:
        """As many windows of each domain, at most `windows`; a domain without one is left out."""
        first = first_tokens(self.data.bos, self.tokenizer)
        stretch = length + 1 - min(1, len(first))
        long_enough = {domain: ids for domain, ids in self.domains.items() if len(ids) >= stretch}
        count = min([windows, *(len(ids) // stretch for ids in long_enough.values())])
        return {domain: held_out_windows(ids, length, count * length, first) for domain, ids in long_enough.items()}

    def scored(self, length: int, count_tokens: int, stride: int | None = None) -> HeldOut:
        """Those windows, or sliding ones, with which targets count and the document of each."""
        first = first_tokens(self.data.bos, self.tokenizer)
        return self.text.scored(length, count_tokens, first, self.tokenizer.specials.eos, stride)


@dataclass(frozen=True)
class BackcopySource:
    data: BackcopyData
    task: Backcopy

    @property
    def vocabulary(self) -> int:
        return vocabulary_size(self.data)

    @property
    def shared(self) -> Backcopy:
        return self.task

    @property
    def described(self) -> dict[str, Any]:
        return {"name": "backcopy", "digest": None}  # wholly drawn from the configuration and the seed

    @property
    def tokenizer(self) -> None:
        return None

    def inputs(self, seed: int, step: int, batch: int) -> UInt32[np.ndarray, "3"]:  # noqa: ARG002
        """Seed, step, and how many ids are cut off the front: BOS, where it is absent."""
        return np.array([seed, step, self.data.bos == "absent"], np.uint32)

    def sample(self, inputs: UInt32[Array, "3"], shared: Backcopy, batch: int) -> Sample:
        key = jax.random.fold_in(jax.random.key(inputs[0]), inputs[1])
        ids = sample(key, shared, batch, self.data.length + 2)
        return Sample(jax.lax.dynamic_slice_in_dim(ids, inputs[2], self.data.length + 1, axis=1))

    def held_out(self, sequences: int) -> Int[Array, "B T"]:
        """Sequences [sequences, length + 1] that no training seed draws, the same for every arm and seed."""
        inputs = jnp.array([HELD_OUT_SEED, 0, self.data.bos == "absent"], jnp.uint32)
        return jax.jit(self.sample, static_argnums=2)(inputs, self.task, sequences).tokens


def open_source(
    data: Data, cache: Path, report: Report | None = None
) -> TextSource | BackcopySource | RetrievalSource | MixedSource:
    """Reads the corpus and its tokens (from `cache` where they are), or draws the task. UserError for what cannot be read.

    `report` hears of what is encoded, as `token_files` tells it.
    """
    if isinstance(data, RetrievalData):
        return RetrievalSource(data)
    if isinstance(data, BackcopyData):
        return BackcopySource(data, make_task(data.vocabulary, data.triggers, data.task_seed, data.zipf))
    corpora = data.corpus.parts if isinstance(data.corpus, Mixture) else (MixturePart(corpus=data.corpus, weight=1.0),)
    shares = shares_of([part.weight for part in corpora])
    # All of them are read before any is encoded: what is missing is said at once.
    divided = [_divided(part.corpus, data, alone=len(corpora) == 1) for part in corpora]
    tokenizer = _tokenizer(data, divided, cache)
    # What neither copies bytes nor leaves the work to a library keeps to one core.
    alone = not isinstance(tokenizer, ByteTokenizer | FastTokenizer)
    files = tuple(token_files(one, tokenizer, cache, report, in_processes=alone) for one in divided)
    text = WeightedText(files, tuple(str(_listed(part.corpus)) for part in corpora), shares)
    if isinstance(data, MixedData):
        return MixedSource(data, text)
    held_out = [(part.held_out, ids.held_out) for part, ids in zip(divided, files, strict=True)]
    return TextSource(data, text, tokenizer, domain_tokens(held_out, tokenizer.specials.eos))


def _tokenizer(data: TextData | MixedData, divided: Sequence[Split], cache: Path) -> Tokenizer:
    """Bytes, or what is trained on the training text of all parts."""
    if isinstance(data, MixedData) or data.tokenizer is None:
        return ByteTokenizer()
    return trained_tokenizer(data.tokenizer, [part.train for part in divided], cache)


def _divided(corpus: str | tuple[str, ...], data: TextData | MixedData, *, alone: bool) -> Split:
    """The sides of one part. UserError where they cannot be read or divided, or no window fits into what is trained on."""
    try:
        documents = stdlib_documents() if isinstance(corpus, str) else text_documents(corpus, data.hub_documents)
        divided = split(documents, data.held_out)
        _check_length(data, divided)
    except UserError as error:
        if alone:
            raise
        raise UserError(f"{_listed(corpus)}, a part of the mixture: {error}") from error
    return divided


def _listed(corpus: str | tuple[str, ...]) -> str | list[str]:
    return corpus if isinstance(corpus, str) else list(corpus)


def _check_length(data: TextData | MixedData, divided: Split) -> None:
    """UserError where no window fits into the training text, before any of it is written."""
    tokens = divided.train.bytes + len(divided.train)  # bytes, and EOS
    if data.length >= tokens:
        raise UserError(
            f"data.length = {data.length}: a window and its last target take {data.length + 1} tokens, and the training text "
            f"has {tokens}; shorten it or add text"
        )


def vocabulary_size(data: Data) -> int:
    """Ids that a model of this data needs, known without reading any; Bigram-Backcopy has BOS besides its own."""
    match data:
        case BackcopyData():
            return data.vocabulary + 1
        case RetrievalData():
            return retrieval_tasks(data).vocabulary.size
        case MixedData():
            return ByteTokenizer().vocabulary_size + recall_task(data).size
        case TextData():
            return ByteTokenizer().vocabulary_size if data.tokenizer is None else data.tokenizer.vocabulary
