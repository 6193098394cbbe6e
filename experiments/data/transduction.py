"""One sequence of ids into another: strings that are copied, reversed or sorted, and English numerals that become digits.

A row has two halves of equal width, the source and the target, each [BEGIN, ids, END] with PADDING after it, and one id of
padding more, so that its inputs are two halves too. An encoder reads the first half; a decoder alone reads the whole row. The
targets that count are those of the second half: the ids of the answer and END.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray, UInt32

from leadline.experiments.config.base import nearest
from leadline.experiments.config.data import PADDING, StringTask, TransductionData
from leadline.experiments.data.sample import DrawnSource, Sample, held_out_key, step_key
from leadline.experiments.runtime.errors import UserError

BEGIN, END, FIRST = PADDING + 1, PADDING + 2, PADDING + 3  # FIRST is the first symbol of a string
TEENS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen"),
    *("fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SCALES = ("thousand", "million")
# The ids of numerals, from FIRST on: ten digits, then words.
NAMES = (*map(str, range(10)), *TEENS, *TENS, "hundred", *SCALES)
TEEN, TEN, HUNDRED, THOUSAND = (FIRST + NAMES.index(name) for name in ("zero", "twenty", "hundred", "thousand"))

Ids = Int[Array, "B n"]


def vocabulary_size(data: TransductionData) -> int:
    """Ids of a task, those of its frame included."""
    return FIRST + (len(NAMES) if data.task == "numbers" else data.symbols)


def names(data: TransductionData) -> tuple[str, ...]:
    """What readers call the ids from FIRST on: digits and words, or the numbers of the symbols of strings."""
    return NAMES if data.task == "numbers" else tuple(map(str, range(data.symbols)))


def source_ids(text: str, data: TransductionData) -> list[int]:
    """The ids of a source that is written as `names` with blanks between them, such as "7 0 3" or "twenty one".

    Raises:
        UserError: for an empty source, and one with a name that sources of the task do not have.
    """
    known = names(data)[10:] if data.task == "numbers" else names(data)
    if not text.split():
        raise UserError(f"the source is empty: give {known[1]!r}, say")
    if unknown := [name for name in text.split() if name not in known]:
        raise UserError(f"{unknown[0]!r} is in no source of the task {data.task!r}{nearest(unknown[0], known)}")
    return [FIRST + names(data).index(name) for name in text.split()]


def text_of(ids: Iterable[int], data: TransductionData) -> str:
    """The names of ids, with blanks between them; the ids of the frame have none."""
    return " ".join(names(data)[i - FIRST] for i in ids if i >= FIRST)


def rows(key: PRNGKeyArray, data: TransductionData, batch: int, size: int | None = None) -> Sample:
    """Rows of a task [batch, length + 1].

    Args:
        key: of the random numbers.
        data: the task.
        batch: B.
        size: of every string [symbols] or number [digits]; None is uniform from 1 to data.size.
    """
    longest = max(size or 0, data.size)
    which, draw = jax.random.split(key)
    sizes = jnp.full(batch, size) if size else jax.random.randint(which, (batch,), 1, longest + 1)
    if data.task == "numbers":
        source, target = numerals(draw, sizes, longest)
    else:
        string = FIRST + jax.random.randint(draw, (batch, longest), 0, data.symbols)
        inside = jnp.arange(longest)[None] < sizes[:, None]
        source = jnp.where(inside, string, PADDING)
        target = STRINGS[data.task](source, inside)
    half = data.half(longest)
    tokens = jnp.concatenate([framed(source, half), framed(target, half + 1)], axis=1)
    counts = (tokens[:, 1:] != PADDING) & (jnp.arange(2 * half) >= half)[None]
    return Sample(tokens, counts.astype(jnp.float32))


def framed(ids: Ids, width: int) -> Int[Array, "B {width}"]:
    """[BEGIN, ids, END] with PADDING after it, of `width` ids in all."""
    ids = ids[:, : width - 2]  # after which there is padding
    ended = jnp.pad(ids, [(0, 0), (1, width - 1 - ids.shape[1])], constant_values=PADDING).at[:, 0].set(BEGIN)
    end = jnp.sum(ended != PADDING, axis=1, keepdims=True)
    return jnp.where(jnp.arange(width)[None] == end, END, ended)


def _reversed(string: Ids, inside: Bool[Array, "B n"]) -> Ids:
    return _to_front(string[:, ::-1], inside[:, ::-1])


def _sorted(string: Ids, inside: Bool[Array, "B n"]) -> Ids:
    return _to_front(jnp.sort(string, axis=1), jnp.sort(inside, axis=1))  # PADDING is the least id, and not inside


def _to_front(ids: Ids, there: Bool[Array, "B n"]) -> Ids:
    """The ids that are there, in their order, and PADDING after them."""
    order = jnp.argsort(~there, axis=1, stable=True)
    return jnp.take_along_axis(jnp.where(there, ids, PADDING), order, axis=1)


STRINGS: Mapping[StringTask, Callable[[Ids, Bool[Array, "B n"]], Ids]] = {
    "copy": lambda string, inside: string,  # noqa: ARG005
    "reverse": _reversed,
    "sort": _sorted,
}


def numerals(key: PRNGKeyArray, digits: Int[Array, " B"], longest: int) -> tuple[Int[Array, "B words"], Int[Array, "B n"]]:
    """Numbers of so many digits, uniform, as English words and as digits, from the left; PADDING after either.

    Args:
        key: of the random numbers.
        digits: of each number.
        longest: the most digits.
    """
    rest, first = jax.random.split(key)
    place = longest - 1 - jnp.arange(longest)[None]  # powers of ten
    leading = (place == digits[:, None] - 1) & (digits[:, None] > 1)
    number = jax.random.randint(rest, (digits.shape[0], longest), 0, 10)
    number = jnp.where(leading, jax.random.randint(first, number.shape, 1, 10), number)
    inside = place < digits[:, None]
    number = jnp.where(inside, number, 0)
    return in_words(number), _to_front(FIRST + number, inside)


def in_words(number: Ids) -> Int[Array, "B words"]:
    """The English words of numbers whose digits are given from the left, with leading zeros; PADDING after them.

    Three digits h, t, u are "h hundred", the tens from twenty on, and the rest below twenty, then the scale of the three. What
    is zero has no word, unless all is.
    """
    groups = -(-number.shape[1] // 3)
    padded = jnp.pad(number, [(0, 0), (3 * groups - number.shape[1], 0)]).reshape(-1, groups, 3)
    h, t, u = padded[..., 0], padded[..., 1], padded[..., 2]
    below = jnp.where(t == 1, 10 + u, u)
    nothing = (jnp.sum(number, axis=1) == 0)[:, None] & (jnp.arange(groups) == groups - 1)[None]
    scale = groups - 1 - jnp.arange(groups)[None]
    words = (TEEN + h, jnp.full_like(h, HUNDRED), TEN + t - 2, TEEN + below, jnp.broadcast_to(THOUSAND - 1 + scale, h.shape))
    spoken = (h > 0, h > 0, t > 1, (below > 0) | nothing, (h + t + u > 0) & (scale > 0))
    flat, is_spoken = (jnp.stack(parts, axis=2).reshape(number.shape[0], -1) for parts in (words, spoken))
    return _to_front(flat, is_spoken)


@dataclass(frozen=True)
class TransductionSource(DrawnSource):
    """A task as a source of training steps, and the rows that its models are measured on."""

    data: TransductionData

    @property
    def vocabulary(self) -> int:
        return vocabulary_size(self.data)

    def sample(self, inputs: UInt32[Array, "2"], shared: None, batch: int) -> Sample:  # noqa: ARG002
        return rows(step_key(inputs), self.data, batch)

    def held_out(self, sequences: int, size: int | None = None) -> Sample:
        """Rows drawn with a key of their own, the same for every arm and seed; `size` is that of `rows`.

        Short strings occur in training, too.
        """
        draw = jax.jit(rows, static_argnames=("data", "batch", "size"))
        return draw(held_out_key(size or 0), self.data, sequences, size)
