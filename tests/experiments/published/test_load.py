"""Checkpoints that are no whole model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from leadline.experiments.published.load import load
from leadline.experiments.published.open import open_checkpoint
from leadline.experiments.runtime.errors import UserError
from tests.experiments.published.tiny_llama import CONFIG, tiny_llama, tiny_tensors

pytestmark = pytest.mark.usefixtures("mesh")


@pytest.mark.parametrize("dtype", [np.int32, np.bool_, np.uint8])
def test_a_tensor_of_no_floats_is_named(tmp_path: Path, dtype: Any) -> None:
    folder = tiny_llama(tmp_path / "Tiny")
    tensors = tiny_tensors()
    save_file(tensors | {"model.norm.weight": tensors["model.norm.weight"].astype(dtype)}, folder / "model.safetensors")
    with pytest.raises(UserError, match=r"^Tiny: has model\.norm\.weight of type (I32|BOOL|U8), where weights are floats"):
        load(open_checkpoint(str(folder)))


@pytest.mark.parametrize("key", ["hidden_size", "intermediate_size", "num_attention_heads", "head_dim", "vocab_size"])
def test_a_size_that_no_tensor_has_is_refused_before_anything_is_made_of_it(tmp_path: Path, key: str) -> None:
    folder = tiny_llama(tmp_path / "Tiny")
    sizes = {"head_dim": 8, key: 2**24, **({"num_key_value_heads": 1} if key == "num_attention_heads" else {})}
    (folder / "config.json").write_text(json.dumps(CONFIG | sizes), encoding="utf-8")
    with pytest.raises(UserError, match=r"^Tiny: config\.json means \w+ = 16777216, and its largest tensor has"):
        load(open_checkpoint(str(folder)))
