"""The held-out sequences of a run that is over."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int

from leadline.experiments.config.study import Arm
from leadline.experiments.data.source import open_source
from leadline.experiments.measure.evaluate import as_rows
from leadline.experiments.measure.kinds.curves import curve_of
from leadline.experiments.runtime.errors import UserError


def held_out_ids(
    arm: Arm, digest: str | None, cache: Path, corpus: Sequence[str | Path] | None = None
) -> Int[np.ndarray, "W T_and_1"]:
    """The sequences that the curves of an arm are measured on: inputs [:, :-1], targets [:, 1:].

    Args:
        arm: as its record has it, which names files by their base names.
        digest: of the data, as the record has it; None for a task.
        cache: the folder of tokens.
        corpus: files and folders of the text; None for those that the arm names.

    Raises:
        UserError: for a corpus that cannot be read, or is another one.
    """
    data = arm.data if corpus is None else arm.data.model_copy(update={"corpus": tuple(map(str, corpus))})
    remedy = "held_out(corpus=[…]) says where the corpus of the run lies"
    try:
        source = open_source(data, cache)
    except UserError as error:
        raise UserError(f"{error}; {remedy}") from error
    if source.described["digest"] != digest:
        raise UserError(f"{source.described['name']} is not the text that the run was trained on; {remedy}")
    return as_rows(np.asarray(curve_of(data).batches(source, arm).tokens))
