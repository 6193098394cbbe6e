"""Text as a source of training steps, and the held-out text that its models are measured on.

It is of several corpora by weight; one corpus is a mixture of one part. A schedule deals rows to the parts: the part of row m,
and how many rows of that part come before it, are functions of m. So a batch is a function of (seed, step), and shares are
exact at every step.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array, Int, Int32, Int64, UInt

from leadline.experiments.config.data import Mixture, TextData
from leadline.experiments.data.permutation import keyed
from leadline.experiments.data.sample import HELD_OUT_SEED, Sample
from leadline.experiments.data.text.batches import FirstTokens, drawn_first, text_rows
from leadline.experiments.data.text.held_out import Documents, HeldOut, by_domain, held_out_windows, keyed_order, slot_count
from leadline.experiments.data.text.tokens import TokenFiles, end_of_document
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.tokenizer import Tokenizer

# Part of every digest of more than one part: raise it whenever the same parts would be mixed differently.
FORMAT = 1
# Shares are counted in units of 2^-20: products with the number of a row fit 64 bits up to 2^43 rows.
WHOLE = 1 << 20
# Keeps the seeds of parts apart from the epochs and items that a seed is mixed with: above any of their numbers.
PART_STREAM = 2**48
ALL = slice(None)


def shares_of(weights: Sequence[float]) -> tuple[int, ...]:
    """The share of each part in what the parts before it leave, in units of 1 / WHOLE; that of the last part is WHOLE.

    A share is rounded to a unit, but never to 0.

    Raises:
        UserError: for a weight that is not positive and finite.
    """
    if not all(0 < weight < float("inf") for weight in weights):
        raise UserError(f"the weights of a mixture are {list(weights)}; each must be positive")
    left = [weight / sum(weights[number:]) for number, weight in enumerate(weights[:-1])]
    return (*(max(1, min(WHOLE - 1, round(share * WHOLE))) for share in left), WHOLE)


def scheduled(
    item: Int64[np.ndarray, "items"], shares: tuple[int, ...]
) -> tuple[Int64[np.ndarray, "items"], Int64[np.ndarray, "items"]]:
    """The part of each item, and how many items of that part come before it.

    Of the items 0 … m - 1 the first part has m · share, rounded; the second has its share of the others, rounded; and so on.
    As each share is below 1, one more item raises one of the counts by one. After any number of items the count of a part is
    off its share by at most half an item times the number of parts.
    """
    part, place = np.full(item.shape, len(shares) - 1), item.astype(np.int64)
    left = np.ones(item.shape, bool)
    for number, share in enumerate(shares[:-1]):
        before, after = (((place + more) * share + WHOLE // 2) // WHOLE for more in (0, 1))
        taken = left & (after > before)
        part[taken] = number
        left &= ~taken
        place = np.where(taken, before, np.where(left, place - before, place))
    return part, place


@dataclass(frozen=True)
class WeightedText:
    """Text of one or several corpora, as it is trained on and measured on.

    Every row has as many tokens, so shares of rows are shares of tokens. Each part has its own permutations: each of its
    windows comes once in each of its epochs, and parts with fewer windows for their weight have more epochs.
    """

    parts: tuple[TokenFiles, ...]  # of each corpus
    documents: tuple[Documents, ...]  # held out, of each corpus
    names: tuple[str, ...]  # of the parts, for messages
    shares: tuple[int, ...]  # `shares_of` their weights
    first: FirstTokens  # what a row may begin with (`first_tokens`)

    @property
    def digest(self) -> str:
        """The digest of all that decides the tokens and their order, apart from the seed. A single part has its own digest."""
        if len(self.parts) == 1:
            return self.parts[0].digest
        content = [FORMAT, [part.digest for part in self.parts], self.shares]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def described(self, name: Any, tokenizer: Tokenizer) -> dict[str, Any]:
        """What the record says of text: name, digest, documents and tokens of both sides, tokenizer."""
        return {
            "name": name,
            "digest": self.digest,
            "train_documents": sum(part.train_documents for part in self.parts),
            "train_tokens": sum(len(part.train) for part in self.parts),
            "held_out_documents": sum(part.held_out_documents for part in self.parts),
            "held_out_tokens": sum(len(part.held_out) for part in self.parts),
            "tokenizer": tokenizer.name,
            "tokenizer_digest": tokenizer.digest(),
        }

    def batch(self, seed: int, step: int, batch: int, length: int, rows: slice = ALL) -> Int32[np.ndarray, "rows {length}+1"]:
        """The windows of one training step, or some rows of them: `text_rows`, each of the part that it is scheduled for.

        Raises:
            UserError: when a window is longer than a part.
        """
        part, place = scheduled(step * batch + np.arange(batch, dtype=np.int64)[rows], self.shares)
        windows = np.empty((len(part), length + 1), np.int32)
        for number, files in enumerate(self.parts):
            chosen = part == number
            # The first part keeps the seed, so that one corpus alone is ordered as a mixture of one.
            part_seed = seed if number == 0 else int(keyed(seed, np.array([PART_STREAM + number]))[0])
            windows[chosen] = text_rows(files.train, part_seed, place[chosen], length, self.first)
        return windows

    def held_out(self, length: int, windows: int, stride: int | None = None) -> HeldOut:
        """`held_out_windows`, each of the part that it is scheduled for: held-out text has the shares of training text.

        Documents are numbered over all parts. Where a part has too few windows there are as many as keep the shares.

        Raises:
            UserError: where the held-out text of a part is shorter than one window.
        """
        counts = np.array([slot_count(documents, length, self.first, stride) for documents in self.documents])
        part, place = scheduled(np.arange(windows, dtype=np.int64), self.shares)
        missing = np.flatnonzero(place >= counts[part])
        part = part[: missing[0] if len(missing) and counts.all() else windows]
        drawn = []
        for number, name in enumerate(self.names):
            try:
                drawn.append(held_out_windows(self.documents[number], length, int((part == number).sum()), self.first, stride))
            except UserError as error:
                raise error if len(self.names) == 1 else UserError(f"{name}, a part of the mixture: {error}") from error
        before = np.cumsum([0, *map(len, self.documents)])
        parts = [
            (text.windows, text.counted, text.documents + start, text.groups)
            for text, start in zip(drawn, before, strict=False)
        ]
        order = np.argsort(np.argsort(part, kind="stable"))  # where each row lies after those of the earlier parts
        rows, counted, numbers, groups = (np.concatenate(arrays)[order] for arrays in zip(*parts, strict=True))
        return HeldOut(rows, counted, numbers, groups, drawn[0].first)

    def groups(self) -> Int[np.ndarray, "D"]:
        """The group of each held-out document, numbered over all parts."""
        return np.concatenate([part.groups() for part in self.documents])

    def held_out_documents(self) -> Iterator[tuple[int, UInt[np.ndarray, "n"], int]]:
        """Number, ids (EOS included) and bytes of text of whole held-out documents, in keyed order.

        Next comes a document of the part that has had the fewest bytes for its share; the first part without a further
        document ends them. The order does not depend on the tokenizer.
        """
        shares, left = [], 1.0
        for share in self.shares:
            shares.append(left * share / WHOLE)
            left -= shares[-1]
        orders = [iter(keyed_order(len(documents)).tolist()) for documents in self.documents]
        before = np.cumsum([0, *map(len, self.documents)]).tolist()
        given = np.zeros(len(self.documents))
        while (number := next(orders[part := int(np.argmin(given / shares))], None)) is not None:
            size = int(self.documents[part].sizes[number])
            given[part] += size
            yield before[part] + number, self.documents[part].tokens_of(number), size


@dataclass(frozen=True)
class TextSource:
    """Windows of text, of which every target counts."""

    data: TextData
    vocabulary: int
    text: WeightedText
    tokenizer: Tokenizer

    @property
    def shared(self) -> Int32[np.ndarray, ""]:
        """EOS, by which measurements know where documents begin."""
        return np.asarray(end_of_document(self.tokenizer), np.int32)

    @property
    def described(self) -> dict[str, Any]:
        corpus = self.data.corpus
        name = corpus.model_dump(mode="json") if isinstance(corpus, Mixture) else listed(corpus)
        return self.text.described(name, self.tokenizer)

    def inputs(self, seed: int, step: int, batch: int, rows: slice = ALL) -> Int32[np.ndarray, "rows T"]:
        return self.text.batch(seed, step, batch, self.data.length, rows)

    def sample(self, inputs: Int[Array, "B T"], shared: Int32[Array, ""], batch: int) -> Sample:  # noqa: ARG002
        return Sample(inputs)

    def by_domain(self, length: int, windows: int) -> dict[str, HeldOut]:
        """Equally many windows of each domain, drawn as in `WeightedText.held_out`. Domains without a window are left out.

        Within a domain the parts of a mixture count by their size.
        """
        first, domains = self.text.first, by_domain(self.text.documents)
        counts = {domain: slot_count(documents, length, first) for domain, documents in domains.items()}
        fewest = min([windows, *filter(None, counts.values())])
        return {
            domain: held_out_windows(documents, length, fewest, first)
            for domain, documents in domains.items()
            if counts[domain]
        }

    def stream(self, tokens: int) -> HeldOut:
        """One window of `tokens` inputs.

        It has whole held-out documents in keyed order, the last one cut, after the first token of a window, if it has one.

        Raises:
            UserError: where there is not as much held-out text.
        """
        first = drawn_first(self.text.first, HELD_OUT_SEED, np.zeros(1, np.int64))[0]
        parts, numbers, count = [first], [np.empty(0, np.int64)], len(first)
        for number, ids, _ in self.text.held_out_documents():
            parts.append(ids)
            numbers.append(np.full(len(ids), number))
            count += len(ids)
            if count > tokens:
                window = np.concatenate(parts)[None, : tokens + 1].astype(np.int32)
                documents = np.concatenate(numbers)[None, 1 - len(first) :][:, :tokens]
                return HeldOut(window, np.ones_like(documents, bool), documents, self.text.groups()[documents], len(first))
        raise UserError(f"a stream of {tokens} tokens takes more held-out text than the {count} tokens there are; shorten it")

    def held_out_bytes(self, count_bytes: int) -> HeldOut:
        """Windows of the training length over whole documents: the same bytes of text for every tokenizer.

        They are the first held-out documents in keyed order that have `count_bytes` bytes together, or all there are. Every
        token of them is a target once; what the last window lacks is filled with EOS, which does not count. The first window
        begins with an EOS, as if a document had ended before it, unless windows have a first token of their own.
        """
        numbers, tokens, sizes = zip(*self.text.held_out_documents(), strict=True)
        count = 1 + int(np.searchsorted(np.cumsum(sizes), count_bytes))
        ids = np.concatenate(tokens[:count]).astype(np.int32)
        numbers = np.repeat(numbers[:count], [len(of_document) for of_document in tokens[:count]])
        length, eos = self.data.length, ids[-1]
        rest = -len(ids) % length
        targets = np.pad(ids, (0, rest), constant_values=eos).reshape(-1, length)
        before = drawn_first(self.text.first, HELD_OUT_SEED, np.arange(len(targets)))
        if not before.size:
            before = np.concatenate([[[eos]], targets[:-1, -1:]])
        documents = np.pad(numbers, (0, rest), mode="edge").reshape(targets.shape)
        return HeldOut(
            np.concatenate([before, targets], axis=1),
            (np.arange(targets.size) < len(ids)).reshape(targets.shape),
            documents,
            self.text.groups()[documents],
        )


def listed(corpus: str | tuple[str, ...]) -> str | list[str]:
    """A corpus as its configuration names it."""
    return corpus if isinstance(corpus, str) else list(corpus)
