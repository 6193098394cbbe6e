"""What is said of data that cannot be."""

import math
import re
from collections.abc import Callable
from functools import partial

import jax
import numpy as np
import pytest

from leadline.experiments.config.data import MixedData, RetrievalData, Task
from leadline.experiments.data import backcopy, recall
from leadline.experiments.data.permutation import keyed, permute
from leadline.experiments.data.retrieval.source import SAMPLES
from leadline.experiments.data.retrieval.vocabulary import Batch
from leadline.experiments.data.text.batches import first_tokens, text_rows
from leadline.experiments.data.text.corpus import Document
from leadline.experiments.data.text.held_out import documents_of, held_out_windows
from leadline.experiments.data.text.source import shares_of
from leadline.experiments.data.text.split import split
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.byte import ByteTokenizer
from leadline.tokenization.tokenizer import Specials

KEY, EPOCH = jax.random.key(0), keyed(0, np.array([0]))
NONE = np.empty(0, np.int32)
RECALL = recall.Recall(keys=40, values=3, first=100)
DOCUMENT = Document("a", b"x" * 10)
HELD_OUT = documents_of([DOCUMENT], np.array([*range(1, 11), 0], np.uint16), 0)


class WithoutBos(ByteTokenizer):
    specials = Specials(pad=0, eos=4)  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]


def drawn(task: Task, keys: int) -> object:
    return SAMPLES[task](KEY, Batch(RetrievalData(length=64, keys=keys, values=10, fillers=1), 2, 64))


TOO_FEW: dict[Task, int] = {"key_value": 3, "multi_key": 3, "multi_query": 7, "variable_tracking": 5}  # keys
NOT_POSITIVE = [1.0, 0.0], [-1.0, 2.0], [math.nan], [math.inf, 1.0]
MISTAKES: list[tuple[str, Callable[[], object]]] = [
    *(("from 0 to 3 are possible", partial(backcopy.make_task, 4, triggers, 0)) for triggers in (-1, 4)),
    ("no token after BOS", lambda: backcopy.sample(KEY, backcopy.make_task(12, 3, 0), 1, 1)),
    ("at least one item", lambda: permute(np.array([0]), 0, EPOCH)),
    *(("not all in range(5)", partial(permute, np.array([index]), 5, EPOCH)) for index in (5, -1)),
    *((f"an even length of 4 or more, not {length}", partial(recall.sample, KEY, RECALL, 1, length)) for length in (63, 2)),
    ("41 slots of a row of 82", lambda: recall.sample(KEY, RECALL, 1, 82)),
    ("keys = 16: a row of 64 tokens may need 32", lambda: MixedData(length=64, keys=16)),
    *((f"different keys, and there are {n}: set data.keys = ", partial(drawn, task, n)) for task, n in TOO_FEW.items()),
    *(("each must be positive", partial(shares_of, weights)) for weights in NOT_POSITIVE),
    ("needs a BOS", lambda: first_tokens("fixed", WithoutBos())),
    ("1000 takes 1001 tokens", lambda: text_rows(np.arange(1000, dtype=np.uint16), 0, np.arange(1), 1000, NONE)),
    ("a stride of 13 leaves out tokens between windows of 12", lambda: held_out_windows(HELD_OUT, 12, 1, NONE, stride=13)),
    ("a window of 20 takes 21 tokens and the held-out text has 11", lambda: held_out_windows(HELD_OUT, 20, 1, NONE)),
    ("1 documents and 2 EOS", lambda: documents_of([DOCUMENT], np.array([1, 0, 0], np.uint16), 0)),
    *(("must lie between 0 and 1", partial(split, [DOCUMENT] * 3, share)) for share in (0.0, 1.0, -0.1, math.nan)),
    ("no documents", lambda: split([], 0.05)),
    ("join them into one file", lambda: split([DOCUMENT] * 3, 0.5)),
]


@pytest.mark.parametrize(("message", "call"), MISTAKES)
def test_what_cannot_be_is_said(message: str, call: Callable[[], object]) -> None:
    with pytest.raises((UserError, ValueError), match=re.escape(message)):
        call()
