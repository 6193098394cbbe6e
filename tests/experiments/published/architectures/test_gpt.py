"""How weights lie in the tensors of GPT-2 and the models after it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from leadline.experiments.config.to_model import decoder_config
from leadline.experiments.published.architectures.base import LINEAR
from leadline.experiments.published.architectures.gpt import by_group, fused, qkv_layouts
from leadline.experiments.published.checkpoint import Checkpoint, Entry
from leadline.experiments.published.load import (
    checked_rows,
    configured,
    decoder_shapes,
    shape_in_file,
    tensors_of,
    weights_by_name,
)
from leadline.experiments.runtime.errors import UserError
from tests.experiments.published.architectures import real_configs as real
from tests.experiments.published.tiny import TENSORS

pytestmark = pytest.mark.usefixtures("mesh")

VOCABULARY = 11
TINY = {
    "gpt2": real.GPT2 | {"n_embd": 16, "n_head": 2, "n_layer": 2, "n_positions": 8},
    "pythia": real.PYTHIA | {"hidden_size": 32, "intermediate_size": 24, "num_attention_heads": 2, "num_hidden_layers": 2},
    "bloom": real.BLOOM | {"n_embed": 16, "num_attention_heads": 2, "n_layer": 2},
    "mpt": real.MPT | {"d_model": 16, "n_heads": 2, "n_layers": 2},
    "falcon-7b": real.FALCON | {"hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 2},
    "falcon-40b": real.FALCON_40B | {"hidden_size": 16, "n_head": 4, "n_head_kv": 2, "n_layer": 2},
    "falcon-rw": real.FALCON_RW | {"hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 2},
    "phi": real.PHI2 | {"hidden_size": 40, "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2},
    "phi3": real.PHI3 | {"hidden_size": 192, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 2},
}


def tiny(name: str) -> tuple[Checkpoint, Any, Any, dict[str, Any]]:
    """A checkpoint with all tensors, its architecture, its model and the shapes of its weights."""
    checkpoint = Checkpoint(name, TINY[name] | {"vocab_size": VOCABULARY}, TENSORS, None, (), {}.__getitem__)
    architecture, model, context = configured(checkpoint)
    shapes = weights_by_name(decoder_shapes(decoder_config(model, VOCABULARY, context)))
    entries = {
        tensor: Entry(shape_in_file(row, shapes), "F32")
        for row in architecture.rows(model)
        for tensor, _ in tensors_of(row, model.layers)
    }
    return replace(checkpoint, entries=entries), architecture, model, shapes


@pytest.mark.parametrize("name", TINY)
def test_every_weight_is_in_one_tensor(name: str) -> None:
    _, architecture, model, shapes = tiny(name)
    weights = [weight for row in architecture.rows(model) for weight in row.weights]
    assert sorted([*weights, *architecture.defaults]) == sorted(shapes)


@pytest.mark.parametrize("name", TINY)
def test_a_tensor_is_that_of_its_weights(name: str) -> None:
    checkpoint, architecture, model, shapes = tiny(name)
    for row in architecture.rows(model):
        tensor = np.random.default_rng(0).standard_normal(checkpoint.entries[row.tensor.format(0)].shape, np.float32)
        of_layer = tuple(shapes[weight].shape[row.by_layer :] for weight in row.weights)
        weights = row.ours(tensor, of_layer)
        assert tuple(weight.shape for weight in weights) == of_layer
        np.testing.assert_array_equal(row.theirs(*weights), tensor)


def renamed(checkpoint: Checkpoint, old: str, new: str, *more: str) -> Checkpoint:
    """With other beginnings of names, and with tensors more."""
    entries = {new + name.removeprefix(old) if name.startswith(old) else name: e for name, e in checkpoint.entries.items()}
    return replace(checkpoint, entries=entries | {name: Entry((1, 1, 8, 8), "F32") for name in more})


@pytest.mark.parametrize(
    ("name", "old", "new", "buffers"),
    [
        ("gpt2", "transformer.", "", ["h.0.attn.bias", "h.1.attn.masked_bias"]),
        ("gpt2", "", "", ["transformer.h.0.attn.bias", "transformer.h.1.attn.masked_bias"]),
        ("bloom", "transformer.", "", []),
        ("pythia", "embed_out.", "lm_head.", ["gpt_neox.layers.1.attention.bias", "gpt_neox.layers.0.attention.masked_bias"]),
    ],
)
def test_tensors_of_older_files_are_known(name: str, old: str, new: str, buffers: list[str]) -> None:
    checkpoint, architecture, model, shapes = tiny(name)
    older = renamed(checkpoint, old, new, *buffers)
    rows = checked_rows(older, architecture, model, shapes)
    names = {tensor for row in rows for tensor, _ in tensors_of(row, model.layers)}
    assert names == set(older.entries) - set(buffers)


def test_a_tensor_that_is_missing_is_named_as_in_the_file() -> None:
    checkpoint, architecture, model, shapes = tiny("gpt2")
    older = renamed(checkpoint, "transformer.", "")
    entries = {name: entry for name, entry in older.entries.items() if name != "h.1.ln_1.bias"}
    with pytest.raises(UserError, match=r"gpt2: lacks h\.1\.ln_1\.bias$"):
        checked_rows(replace(older, entries=entries), architecture, model, shapes)


@pytest.mark.parametrize(("heads", "groups"), [(4, 4), (4, 2), (4, 1)])
def test_query_key_and_value_lie_group_by_group(heads: int, groups: int) -> None:
    """Each row of the tensor says which head of which part it belongs to; a head has two channels."""
    per_group = heads // groups
    of_groups = [
        [*(("query", group * per_group + head) for head in range(per_group)), ("key", group), ("value", group)]
        for group in range(groups)
    ]
    labels = [label for of_group in of_groups for label in of_group for _ in range(2)]
    (row,) = fused("qkv", by_group(groups), (LINEAR,) * 3, None)
    parts = row.ours(np.arange(len(labels))[:, None], ((1, heads, 2), (1, groups, 2), (1, groups, 2)))
    for name, part in zip(("query", "key", "value"), parts, strict=True):
        assert [[labels[i] for i in head] for head in part[0]] == [[(name, head)] * 2 for head in range(part.shape[1])]


def test_channels_that_rotate_come_first_in_a_head() -> None:
    """8 channels of which 4 rotate, in pairs (0, 2) and (1, 3): ours are pairs (i, i + 4)."""
    _, model, _ = configured(tiny("pythia")[0])
    model = model.model_copy(update={"width": 8, "heads": 1, "position": model.position.model_copy(update={"partial": 0.5})})
    query, key, value = (layout.ours(np.arange(8)[:, None], (1, 1, 8))[0, 0] for layout in qkv_layouts(model, LINEAR))
    np.testing.assert_array_equal(query, [0, 1, 4, 5, 2, 3, 6, 7])
    np.testing.assert_array_equal(key, query)
    np.testing.assert_array_equal(value, np.arange(8))
