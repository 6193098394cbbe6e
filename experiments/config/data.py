"""What a model is trained on."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from experiments.config.base import Frozen, Positive
from experiments.config.tokenizer import TokenizerConfig
from experiments.data.retrieval.vocabulary import DIGITS, TASKS, Task


def _files(corpus: object) -> object:
    """Said here because a union would say it of its first member only."""
    if corpus != "stdlib" and not (isinstance(corpus, list | tuple) and all(isinstance(path, str) for path in corpus)):
        raise ValueError(f'{corpus!r} is neither "stdlib" nor a list of files and folders, as in ["book.txt"]')
    return corpus


class TextData(Frozen):
    """`corpus` is "stdlib" (sources and documentation topics of the running Python) or a list of files and folders."""

    kind: Literal["text"] = "text"
    corpus: Annotated[Literal["stdlib"] | tuple[str, ...], BeforeValidator(_files)] = "stdlib"
    length: Positive
    bos: Literal["fixed", "absent", "random"] = "absent"
    held_out: float = Field(default=0.05, gt=0, lt=1)
    tokenizer: TokenizerConfig | None = None  # trained on the training text; absent: bytes


class BackcopyData(Frozen):
    """Bigram-Backcopy (Guo et al. 2024); `task_seed` draws the bigram, which all seeds of training share."""

    kind: Literal["backcopy"] = "backcopy"
    vocabulary: int = Field(default=64, ge=2)
    triggers: Positive = 3
    length: int = Field(default=64, ge=16)
    task_seed: int = Field(default=0, ge=0)
    zipf: float = Field(default=0.9, ge=0)  # token frequencies fall as rank^-zipf; 0.9 is about that of text
    bos: Literal["fixed", "absent"] = "fixed"

    @model_validator(mode="after")
    def _some_token_is_no_trigger(self) -> "BackcopyData":
        if self.triggers >= self.vocabulary:
            raise ValueError(f"triggers = {self.triggers} leaves no other token of a vocabulary of {self.vocabulary}")
        return self


class RetrievalData(Frozen):
    """A mixture of retrieval tasks (experiments/data/retrieval); `shares` are their probabilities, up to a factor."""

    kind: Literal["retrieval"] = "retrieval"
    tasks: tuple[Task, ...] = Field(default=TASKS, min_length=1)
    shares: tuple[Annotated[float, Field(gt=0)], ...] | None = None  # absent: equal
    length: Positive
    keys: Positive = 128  # ids that name things
    values: int = Field(default=32, ge=DIGITS)  # ids that are looked up, copied, added
    own_values: int = Field(default=0, ge=0)  # ids that are looked up by one key alone, of each; 0: all keys share the values
    fillers: Positive = 8  # ids of the noise
    symbols: Positive = 1  # of a passkey, or of the value of a key
    needles: Positive = 4  # of multi_key
    queries: Positive = 8  # pairs of multi_query
    answers: Positive = 4  # of multi_value
    chains: Positive = 2  # of variable_tracking
    hops: Positive = 2

    @model_validator(mode="after")
    def _one_share_a_task(self) -> "RetrievalData":
        if len(set(self.tasks)) < len(self.tasks):
            raise ValueError(f"tasks = {list(self.tasks)}: each is there once; give it a larger share instead")
        if self.shares is not None and len(self.shares) != len(self.tasks):
            raise ValueError(f"{len(self.shares)} shares for {len(self.tasks)} tasks: give one a task, or none")
        return self


class MixedData(Frozen):
    """Half of the rows are text, half associative recall (experiments/data/recall.py), whose ids lie behind those of text."""

    kind: Literal["mixed"] = "mixed"
    corpus: Annotated[Literal["stdlib"] | tuple[str, ...], BeforeValidator(_files)] = "stdlib"
    length: int = Field(ge=4, multiple_of=2)
    held_out: float = Field(default=0.05, gt=0, lt=1)
    keys: Positive = 128
    values: int = Field(default=4, ge=2)  # of each key

    @model_validator(mode="after")
    def _keys_suffice(self) -> "MixedData":
        self.check_keys(self.length)
        return self

    def check_keys(self, length: int) -> None:
        """ValueError where a row of this length may need more keys than there are."""
        if length // 2 > self.keys:
            raise ValueError(
                f"keys = {self.keys}: a row of {length} tokens may need {length // 2}; raise keys or shorten the row"
            )


Data = TextData | BackcopyData | RetrievalData | MixedData
