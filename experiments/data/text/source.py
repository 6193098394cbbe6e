"""Text as a source of training steps, and the held-out text that its models are measured on."""

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from jaxtyping import Array, Int, Int32, UInt

from leadline.experiments.config.data import Mixture, TextData
from leadline.experiments.data.sample import HELD_OUT_SEED, Sample
from leadline.experiments.data.text.batches import drawn_first
from leadline.experiments.data.text.held_out import HeldOut, by_domain, held_out_windows, slot_count
from leadline.experiments.data.text.mixture import WeightedText
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.tokenizer import Tokenizer


def described_text(name: Any, text: WeightedText, tokenizer: Tokenizer) -> dict[str, Any]:
    """What the record says of text: name, digest, tokenizer, documents and tokens of both sides."""
    return {"name": name, **text.described, "tokenizer": tokenizer.name, "tokenizer_digest": tokenizer.digest()}


@dataclass(frozen=True)
class TextSource:
    """Windows of text, of which every target counts."""

    data: TextData
    vocabulary: int
    text: WeightedText
    tokenizer: Tokenizer
    shared: None = None

    @property
    def described(self) -> dict[str, Any]:
        corpus = self.data.corpus
        name = corpus.model_dump(mode="json") if isinstance(corpus, Mixture) else listed(corpus)
        return described_text(name, self.text, self.tokenizer)

    def inputs(self, seed: int, step: int, batch: int) -> Int32[np.ndarray, "B T"]:
        return self.text.batch(seed, step, batch, self.data.length)

    def sample(self, inputs: Int[Array, "B T"], shared: None, batch: int) -> Sample:  # noqa: ARG002
        return Sample(inputs)

    def held_out(self, length: int, windows: int, stride: int | None = None) -> HeldOut:
        """Windows drawn from all held-out documents, the same for every arm and seed; as many as there are, if fewer.

        With a stride, windows slide: only the last `stride` targets of each count. See `held_out_windows`.

        Raises:
            UserError: where the held-out text is shorter than one window.
        """
        return self.text.held_out(length, windows, stride)

    @property
    def domains(self) -> dict[str, UInt[np.ndarray, "ids"]]:
        """Held-out tokens of "code" and of "prose", as far as there are any."""
        return {domain: documents.ids for domain, documents in by_domain(self.text.documents).items()}

    def by_domain(self, length: int, windows: int) -> dict[str, HeldOut]:
        """As many windows of each domain, drawn as those of `held_out`; a domain without a window is left out.

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

    def stream(self, tokens: int) -> tuple[Int32[np.ndarray, "tokens_and_1"], int]:
        """One text of `tokens` inputs and their targets, and the number of documents that it is made of.

        Whole held-out documents in keyed order, the last one cut; before them the first token of a window, if it has one.

        Raises:
            UserError: where there is not as much held-out text.
        """
        first = drawn_first(self.text.first, HELD_OUT_SEED, np.zeros(1, np.int64))[0]
        parts, count = [first], len(first)
        for _, ids, _ in self.text.held_out_documents():
            parts.append(ids)
            count += len(ids)
            if count > tokens:
                return np.concatenate(parts)[: tokens + 1].astype(np.int32), len(parts) - 1
        raise UserError(f"a stream of {tokens} tokens takes more held-out text than the {count} tokens there are; shorten it")

    def held_out_bytes(self, count_bytes: int) -> HeldOut:
        """Windows of the training length over whole documents: the same bytes of text for every tokenizer.

        They are the first held-out documents in keyed order that have `count_bytes` bytes together, or all there are. Every
        token of them is a target once; what the last window lacks is filled with EOS, which does not count. The first window
        begins with an EOS, as if a document had ended before it, unless windows have a first token of their own.
        """
        documents = list(self.text.held_out_documents())
        covered = list(accumulate(size for _, _, size in documents))
        documents = documents[: 1 + int(np.searchsorted(covered, count_bytes))]
        ids = np.concatenate([tokens for _, tokens, _ in documents]).astype(np.int32)
        numbers = np.repeat([number for number, _, _ in documents], [len(tokens) for _, tokens, _ in documents])
        length, eos = self.data.length, ids[-1]
        rest = -len(ids) % length
        targets = np.pad(ids, (0, rest), constant_values=eos).reshape(-1, length)
        before = drawn_first(self.text.first, HELD_OUT_SEED, np.arange(len(targets)))
        if not before.size:
            before = np.concatenate([[[eos]], targets[:-1, -1:]])
        return HeldOut(
            np.concatenate([before, targets], axis=1),
            (np.arange(targets.size) < len(ids)).reshape(targets.shape),
            np.pad(numbers, (0, rest), mode="edge").reshape(targets.shape),
        )


def listed(corpus: str | tuple[str, ...]) -> str | list[str]:
    """A corpus as its configuration names it."""
    return corpus if isinstance(corpus, str) else list(corpus)
