"""What a model is trained on."""

import math
from collections.abc import Iterator
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag

from leadline.experiments.config.base import Frozen, Positive
from leadline.experiments.config.tokenizer import Bpe, TokenizerConfig, Unigram

Task = Literal["passkey", "multi_key", "multi_query", "multi_value", "variable_tracking", "key_value", "copy", "addition"]
TASKS: tuple[Task, ...] = get_args(Task)
DIGITS = 10  # addition's digits are the first values
Named = Literal["stdlib", "docstrings"]  # corpora that need no file
NAMED: tuple[str, ...] = get_args(Named)
StringTask = Literal["copy", "reverse", "sort"]
MOST_DIGITS = 9  # of a number in words
PADDING = 0  # the id of padding, of tasks that have it


FILES = '"stdlib", "docstrings" nor a list of files and folders, as in ["book.txt"]'
MIXTURE = '{ kind = "mixture", parts = [{ corpus = ["book.txt"], weight = 1.0 }] }'


def _form(corpus: object) -> str:
    files = isinstance(corpus, list | tuple) and all(isinstance(path, str) for path in corpus)
    return "mixture" if isinstance(corpus, dict | Mixture) else "named" if corpus in NAMED else "files" if files else ""


def _files(corpus: object) -> object:
    """Checked here because the error of a union would name its first member alone."""
    if _form(corpus) not in ("named", "files"):
        raise ValueError(f"{corpus!r} is neither {FILES}")
    return corpus


def _files_or_mixture(corpus: object) -> object:
    if not _form(corpus):
        raise ValueError(f"{corpus!r} is neither {FILES}, nor a mixture, as in {MIXTURE}")
    return corpus


# "stdlib" (sources and documentation topics of the running Python), "docstrings" (of its sources), or files, folders and data
# sets of the Hub: "hub:NAME", "hub:NAME:CONFIGURATION" or "hub:NAME:CONFIGURATION:SPLIT".
Files = Annotated[Named | tuple[str, ...], BeforeValidator(_files)]
# Parallel texts: "embedded", or files and folders, a language a file.
Texts = Literal["embedded"] | tuple[str, ...]


class MixturePart(Frozen):
    """One corpus of several; its share of the tokens is its weight over the sum of all weights."""

    corpus: Files  # as in data.corpus
    weight: float = Field(gt=0)  # of the corpus


class Mixture(Frozen):
    """Corpora by weight, in training and in held-out text."""

    kind: Literal["mixture"] = "mixture"
    parts: tuple[MixturePart, ...] = Field(min_length=1)  # the corpora


Corpus = Annotated[
    Annotated[Named, Tag("named")] | Annotated[tuple[str, ...], Tag("files")] | Annotated[Mixture, Tag("mixture")],
    Discriminator(_form),
    BeforeValidator(_files_or_mixture),
]


class TextData(Frozen):
    """Documents one after another, each ended by EOS; windows are cut without regard to where documents end.

    Models are measured on held-out windows that a keyed permutation draws, the same for every arm and seed
    (experiments/data/text/held_out.py). Attention sees the whole window, unless `model.document_mask` is set.
    """

    kind: Literal["text"] = "text"
    # "stdlib" (sources and documentation of the running Python), "docstrings" (of its sources: many short documents), a list
    # of files, folders and data sets of the Hub, as "hub:NAME[:CONFIGURATION[:SPLIT]]", or a mixture
    corpus: Corpus = "stdlib"
    hub_documents: Positive | None = None  # to read of each data set of the Hub, whose stream may have no end; absent: all
    length: Positive  # tokens of a training window
    # what begins a window: BOS, nothing of its own, or a random id; "document": nothing, but BOS begins every document
    bos: Literal["fixed", "absent", "random", "document"] = "absent"
    held_out: float = Field(default=0.05, gt=0, lt=1)  # share of documents that is held out
    tokenizer: TokenizerConfig | None = None  # trained on the training text, or published; absent: bytes

    def problems(self) -> Iterator[str]:
        if self.bos == "document" and isinstance(self.tokenizer, Bpe | Unigram) and self.tokenizer.at_random:
            yield 'bos = "document" cannot be had with dropout or sampling: leave those out, or take another bos'


class BackcopyData(Frozen):
    """Bigram-Backcopy (Guo et al. 2024)."""

    kind: Literal["backcopy"] = "backcopy"
    vocabulary: int = Field(default=64, ge=2)  # number of tokens, without BOS
    triggers: Positive = 3  # tokens that make the next token a copy of the previous one
    length: int = Field(default=64, ge=16)  # tokens of a sequence
    task_seed: int = Field(default=0, ge=0)  # draws the bigram, which all seeds of training share
    zipf: float = Field(default=0.9, ge=0)  # token frequencies fall as rank^-zipf; 0.9 is about that of text
    bos: Literal["fixed", "absent"] = "fixed"  # whether a sequence begins with BOS

    def problems(self) -> Iterator[str]:
        if self.triggers >= self.vocabulary:
            yield f"triggers = {self.triggers} leaves no other token of a vocabulary of {self.vocabulary}"


class RetrievalData(Frozen):
    """A mixture of retrieval tasks (experiments/data/retrieval)."""

    kind: Literal["retrieval"] = "retrieval"
    tasks: tuple[Task, ...] = Field(default=TASKS, min_length=1)  # each once
    shares: tuple[Annotated[float, Field(gt=0)], ...] | None = None  # probabilities of the tasks, up to a factor; absent: equal
    length: Positive  # tokens of a row
    keys: Positive = 128  # ids that name things
    values: int = Field(default=32, ge=DIGITS)  # ids that are looked up, copied, added
    values_per_key: int = Field(default=0, ge=0)  # ids that are looked up by one key alone; 0: all keys share the values
    fillers: Positive = 8  # ids of the noise
    symbols: Positive = 1  # of a passkey, or of the value of a key
    needles: Positive = 4  # of multi_key
    queries: Positive = 8  # pairs of multi_query
    answers: Positive = 4  # of multi_value
    chains: Positive = 2  # of variable_tracking
    hops: Positive = 2  # steps of a chain

    def problems(self) -> Iterator[str]:
        if len(set(self.tasks)) < len(self.tasks):
            yield f"tasks = {list(self.tasks)}: each is there once; give it a larger share instead"
        if self.shares is not None and len(self.shares) != len(self.tasks):
            yield f"{len(self.shares)} shares for {len(self.tasks)} tasks: give one a task, or none"


class MixedData(Frozen):
    """Half of the rows are text, half associative recall (experiments/data/recall.py), whose ids follow those of text."""

    kind: Literal["mixed"] = "mixed"
    corpus: Files = "stdlib"  # as in text
    hub_documents: Positive | None = None  # to read of each data set of the Hub; absent: all
    length: int = Field(ge=4, multiple_of=2)  # tokens of a row
    held_out: float = Field(default=0.05, gt=0, lt=1)  # share of documents that is held out
    keys: Positive = 128  # ids that name things
    values: int = Field(default=4, ge=2)  # of each key

    def problems(self) -> Iterator[str]:
        yield from self.lacks_keys(self.length)

    def lacks_keys(self, length: int) -> Iterator[str]:
        """Says so where a row of this length may need more keys than there are."""
        if length // 2 > self.keys:
            yield f"keys = {self.keys}: a row of {length} tokens may need {length // 2}; raise keys or shorten the row"


class TransductionData(Frozen):
    """One sequence into another, of sizes from 1 on (experiments/data/transduction.py)."""

    kind: Literal["transduction"] = "transduction"
    # strings that are copied, reversed or sorted; or numbers in English words that become digits
    task: Literal[StringTask, "numbers"]
    size: Positive  # of the longest string [symbols] or number [digits] in training
    symbols: int = Field(default=32, ge=2)  # ids that strings are of

    def problems(self) -> Iterator[str]:
        if self.task == "numbers" and self.size > MOST_DIGITS:
            yield f"size = {self.size}: numbers have at most {MOST_DIGITS} digits"

    def half(self, size: int) -> int:
        """Ids of a source and of a target of that size at most, with their first and last."""
        # Three digits take at most four words, and a scale.
        words = 5 * (size // 3) + size % 3 - (0 if size % 3 else 1)
        return 2 + (max(words, size) if self.task == "numbers" else size)

    @property
    def length(self) -> int:
        """Tokens of a row: a source and a target."""
        return 2 * self.half(self.size)


class GridData(Frozen):
    """Questions in a picture of rectangles: which colour is so many cells above, or to the left (experiments/data/grid.py)?"""

    kind: Literal["grid"] = "grid"
    # cells along each axis in training, the last one fastest: rows and columns, or frames, rows and columns
    sizes: tuple[Positive, ...] = Field(min_length=2, max_length=3)
    colours: int = Field(default=8, ge=2)  # of rectangles, each an id
    side: Positive = 3  # longest side of a rectangle [cells]; 1: every cell has a colour of its own
    reach: Positive = 2  # most cells between a question and the cell that it asks about, along one axis

    def problems(self) -> Iterator[str]:
        if self.reach >= min(self.sizes):
            yield f"reach = {self.reach} leaves a grid of {list(self.sizes)}: make it smaller than every axis"

    @property
    def length(self) -> int:
        """Tokens of a row: the cells."""
        return math.prod(self.sizes)


Data = Annotated[TextData | BackcopyData | RetrievalData | MixedData | TransductionData | GridData, Field(discriminator="kind")]
