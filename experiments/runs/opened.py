"""A trained run, opened by its folder: its model is asked for logits, sinks, attention and text, its record for the rest.

Whatever is measured here is measured by the functions that measure studies (leadline.experiments.measure).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Array, Float, Int

from leadline.experiments.records.measurement import Reading, value_of
from leadline.experiments.records.record import Record, StoredRecord
from leadline.experiments.records.store import read_stored
from leadline.experiments.runs.folders import cache_of, run_folder
from leadline.experiments.runs.held_out import held_out_ids
from leadline.experiments.runs.measured import Sinks, logits_of, maps_of, sinks_of
from leadline.experiments.runtime.errors import UserError
from leadline.experiments.training.generation import Request, Saved, generated, open_saved, prompt_ids
from leadline.model.generate import Policy
from leadline.tokenization.tokenizer import Tokenizer

Ids = Sequence[int] | Sequence[Sequence[int]] | Int[np.ndarray | Array, "..."]
# What `repr` shows of a record, as far as it has them.
KEY_FIGURES = ("loss", "bits_per_byte", "accuracy", "recall_accuracy", "sink_rate", "first_token_mass", "bos_mass")


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A trained run, of text or of a task. `leadline.open` makes one.

    Ids are [T] for one text or [B, T] for several of one length, from 0 to below `vocabulary_size`. Arrays come back as NumPy
    arrays on the host; layers and heads count from 0, as their axes do. A program is compiled for each shape of ids.

    Attributes:
        folder: `results/STUDY/ARM-HASH/sSEED`.
        saved: the configuration of the arm, the structure of the model, its weights on the host.
        stored: the record and what lies beside it.

    Examples:
        >>> run = leadline.open("results/sinks", arm="softmax", seed=10)
        >>> ids = run.held_out()[:, :-1]
        >>> run.logits(ids).shape == (*ids.shape, run.vocabulary_size)
        True
        >>> run.sinks(ids).first_token_mass.shape == (run.saved.cfg.layers, run.saved.cfg.block.heads)
        True
        >>> float(run.attention_map(ids[0], layer=0, head=0)[0, 0])  # the first token sees itself alone
        1.0
        >>> sorted(run.curves())[:2]
        ['activation_ratio', 'backcopy_loss']
    """

    folder: Path
    saved: Saved
    stored: StoredRecord

    @property
    def record(self) -> Record:
        """The record of the run: configuration, provenance, measurements with units."""
        return self.stored.record

    @property
    def vocabulary_size(self) -> int:
        """V, ids that the model knows; some of them may stand for no text."""
        return self.saved.cfg.vocabulary

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of a model of text; None for a task of ids."""
        return self.saved.tokenizer

    def encode(self, text: str) -> Int[np.ndarray, " T"]:
        """The ids of a text, behind BOS where the model was trained with one.

        Raises:
            UserError: for a model of a task, an empty text, and characters that the tokenizer does not know.
        """
        return prompt_ids(self.saved, text)

    def held_out(self, corpus: Sequence[str | Path] | None = None) -> Int[np.ndarray, "W T_and_1"]:
        """The held-out sequences that the curves of the run are measured on: inputs [:, :-1], targets [:, 1:].

        Those of a task are drawn again. Those of text are cut from the corpus; its tokens are kept in `.cache` of the results,
        as in training.

        Args:
            corpus: files and folders of the text. A record has their base names only, so all but "stdlib" are to be named.

        Raises:
            UserError: for a corpus that cannot be read, or that is not the one of the run.
        """
        digest = self.record.data["digest"]
        return held_out_ids(self.saved.arm, digest, cache_of(self.folder), corpus)  # pyright: ignore[reportArgumentType]  # JSON of a text

    def logits(self, ids: Ids) -> Float[np.ndarray, "*B T V"]:
        """The logits of the token behind each token, [T, V] or [B, T, V]. The loss is that of log_softmax(logits)[target].

        Raises:
            UserError: for ids that the model does not know, and texts that are longer than its positions.
        """
        return logits_of(self.saved, self._texts(ids)).reshape(*np.shape(ids), -1)

    def sinks(self, ids: Ids, *, token: int = 1, epsilon: float = 0.3) -> Sinks:
        """Attention sinks of every layer and head on these texts.

        Args:
            ids: [T] or [B, T].
            token: k of the sink rate, from 1.
            epsilon: ε of the sink rate.

        Raises:
            UserError: as `logits`, and for a token that is not in the texts, or an ε that is not between 0 and 1.
        """
        return sinks_of(self.saved, self._texts(ids), token, epsilon)

    def attention_map(self, ids: Ids, layer: int, head: int) -> Float[np.ndarray, "T T"]:
        """The attention of query i (row) to key j (column) in one head, on one text; the sink logit has the rest of a row.

        Raises:
            UserError: as `logits`, for several texts, for a layer or a head that is not there, and for a model whose queries
                each rotate all keys by a table of their own.
        """
        texts, cfg = self._texts(ids), self.saved.cfg
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
        request = Request(prompt, tokens, temperature, top_k, top_p, seed, policy)
        return "".join(piece.text for piece in generated(self.saved, request))

    def curves(self) -> dict[str, np.ndarray]:
        """What was measured during training, by quantity: arrays of one number a point, and `step` [P].

        A DataFrame takes it as it is: `pandas.DataFrame(run.curves())`. A quantity with dimensions has them behind its name.

        Raises:
            UserError: where the file is damaged.
        """
        curve = self.stored.curve()
        return {"step": curve.steps, **{_named(key): np.asarray(values) for key, values in curve.values.items()}}

    def __repr__(self) -> str:
        record, cfg = self.record, self.saved.cfg
        numbers = {name: value_of(record, name) for name in KEY_FIGURES}
        figures = ", ".join(f"{name} {value:.4g}" for name, value in numbers.items() if value is not None)
        sizes = f"layers {cfg.layers}, heads {cfg.block.heads}, width {cfg.block.width}"
        return (
            f"Run {record.study} / {record.label or record.arm}, seed {record.seed}, step {self.saved.step}\n"
            f"  model     {sizes}, {self.saved.arm.model.position.kind}, {record.parameters:,} parameters\n"
            f"  data      {self.saved.arm.data.kind}, {self.saved.arm.data.length} tokens, {cfg.vocabulary} ids\n"
            f"  measured  {figures or 'nothing'}\n"
            f"  folder    {self.folder}"
        )

    def _texts(self, ids: Ids) -> Int[np.ndarray, "B T"]:
        array, known = np.asarray(ids), self.vocabulary_size
        if array.ndim not in (1, 2) or not array.size or not np.issubdtype(array.dtype, np.integer):
            raise UserError(
                f"ids are integers [T] or [B, T], not {array.dtype} {list(array.shape)}; run.encode(text) gives some"
            )
        if array.min() < 0 or array.max() >= known:
            raise UserError(f"ids {array.min()} to {array.max()}: this model knows 0 to {known - 1}")
        return np.atleast_2d(array).astype(np.int32)


def open_run(folder: str | Path, *, arm: str | None = None, seed: int | None = None) -> Run:
    """Opens a trained run, of text or of a task.

    Args:
        folder: of the run, `results/STUDY/ARM-HASH/sSEED`, or one above it, where `arm` and `seed` say which run is meant.
        arm: its name.
        seed: its seed.

    Raises:
        UserError: where there is no run, or more than one, which are listed; for a run that diverged, whose files are damaged,
            or that another version wrote.
    """
    path = run_folder(Path(folder), arm, seed)
    stored = read_stored(path)
    if not stored.record.steps and stored.record.status == "finished":
        raise UserError(f"{path}: {stored.record.study} is computed and trains nothing; leadline.records has its numbers")
    return Run(path, open_saved(path), stored)


def _named(key: Reading) -> str:
    dims = ", ".join(f"{name}={value}" for name, value in key.dims)
    return f"{key.quantity} ({dims})" if dims else key.quantity
