"""Where leadline differs from transformers 5.23.0 because of a defect there: each one shown on the installed version.

When one of these fails, transformers has mended the defect: then the difference is to be compared in the other oracles.
"""

import numpy as np
import pytest
import torch
from transformers import Gemma3TextConfig, GPTNeoXConfig, LlamaConfig, Qwen3VLTextConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gpt_neox import modeling_gpt_neox as neox
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRotaryEmbedding

from leadline.model.positions.frequencies import dynamic_ntk, inverse_frequencies
from leadline.model.positions.sections import interleaved_sections
from leadline.model.positions.yarn import yarn, yarn_attention_factor

pytestmark = pytest.mark.oracle

SIZE, BASE, TRAINED = 16, 1e4, 64
ORIGINAL = {"original_max_position_embeddings": TRAINED}


def test_truncation_is_ignored_where_parameters_are_given_by_layer_type():
    """YaRN's `truncate` is read beside the layer types, where it cannot stand, instead of among the layer's parameters."""
    size, base = 64, 150_000.0
    full = {
        "rope_type": "yarn",
        "rope_theta": base,
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "truncate": False,
    }
    by_layer = Gemma3TextConfig(
        hidden_size=2 * size,
        num_attention_heads=2,
        head_dim=size,
        rope_parameters={"full_attention": full, "sliding_attention": {"rope_type": "default", "rope_theta": base}},
    )
    found = ROPE_INIT_FUNCTIONS["yarn"](by_layer, None, layer_type="full_attention")[0].numpy()
    np.testing.assert_allclose(found, yarn(size, base, 32.0, 4096, truncate=True), rtol=2e-5)
    assert np.abs(found / yarn(size, base, 32.0, 4096, truncate=False) - 1).max() > 0.05


def test_the_table_of_dynamic_scaling_outlives_the_text_that_it_was_made_for():
    """After a long text a shorter one has the long one's table, unless it is shorter than the training length."""
    rope = {"rope_type": "dynamic", "rope_theta": BASE, "factor": 4.0}
    sizes = {"hidden_size": 2 * SIZE, "num_attention_heads": 2, "head_dim": SIZE, "max_position_embeddings": TRAINED}
    embedding = LlamaRotaryEmbedding(LlamaConfig(**sizes, rope_parameters=rope))

    def table_after(length: int) -> np.ndarray:
        embedding(torch.zeros(1), torch.arange(length)[None])
        return embedding.inv_freq.double().numpy().copy()

    def ours(length: int) -> np.ndarray:
        return dynamic_ntk(SIZE, BASE, 4.0, TRAINED, length)

    np.testing.assert_allclose(table_after(128), ours(128), rtol=1e-5)
    for length in (96, TRAINED):
        stale = table_after(length)
        np.testing.assert_allclose(stale, ours(128), rtol=1e-5)
        assert np.abs(stale / ours(length) - 1).max() > 0.3
    np.testing.assert_allclose(table_after(TRAINED - 1), ours(TRAINED - 1), rtol=1e-5)


@pytest.mark.parametrize(("base", "length", "extended"), [(2.0, 2**17, False), (100.0, 2, True)], ids=["fast", "slow"])
def test_an_empty_ramp_runs_backwards(base, length, extended):
    """Where all pairs turn often none is to be interpolated, where all are slow every one: the published ramp does the reverse.

    It clips its ends into the wrong order. Pair 0, where the ramp is put, is kept here in either case.
    """
    rope = {"rope_type": "yarn", "rope_theta": base, "factor": 4.0, "original_max_position_embeddings": length}
    theirs = LlamaConfig(hidden_size=2 * SIZE, num_attention_heads=2, head_dim=SIZE, rope_parameters=rope)
    expected = ROPE_INIT_FUNCTIONS["yarn"](theirs, None)[0].numpy()
    plain = inverse_frequencies(SIZE, base)
    np.testing.assert_allclose(expected, plain if extended else plain / 4, rtol=1e-5)
    table = yarn(SIZE, base, 4.0, length)
    np.testing.assert_allclose(table[1:], (plain / 4 if extended else plain)[1:], rtol=1e-12)
    assert table[0] == plain[0]


def test_yarn_leaves_the_channels_that_are_not_rotated_at_their_temperature():
    """With a quarter of the channels rotated, scores are not multiplied by the square of the attention factor, but in part.

    Here `partial` says which pairs are rotated, so that either can be had.
    """
    rope = {"rope_type": "yarn", "rope_theta": BASE, "partial_rotary_factor": 0.25, "factor": 16.0, **ORIGINAL}
    sizes = {"hidden_size": 4 * SIZE, "num_attention_heads": 2, "max_position_embeddings": 16 * TRAINED}
    embedding = neox.GPTNeoXRotaryEmbedding(GPTNeoXConfig(rope_parameters=rope, **sizes))
    q, k = torch.randn(2, 1, 1, 2, 2 * SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turned_q, turned_k = neox.apply_rotary_pos_emb(q, k, *embedding(q, torch.zeros(1, 1, dtype=torch.int64)), unsqueeze_dim=2)
    rotated, still = ((q * k)[..., part].sum(-1) for part in (slice(0, SIZE // 2), slice(SIZE // 2, None)))
    factor = yarn_attention_factor(16.0)
    scores = (turned_q * turned_k).sum(-1).numpy()
    np.testing.assert_allclose(scores, factor**2 * rotated + still, rtol=1e-6)
    assert np.abs(scores - (factor**2 * (rotated + still)).numpy()).max() > 0.1


def test_an_interleaved_section_that_does_not_fit_is_cut_off():
    """Of eight pairs one in three makes three: four for the height are three there, and an error here."""
    rope = {"rope_type": "default", "rope_theta": BASE, "mrope_section": [2, 4, 2]}
    embedding = Qwen3VLTextRotaryEmbedding(
        Qwen3VLTextConfig(hidden_size=2 * SIZE, num_attention_heads=2, head_dim=SIZE, rope_parameters=rope)
    )
    only_height = torch.tensor([0, 1, 0])[:, None, None]
    _, sin = embedding(torch.zeros(1), only_height)
    assert int((sin[0, 0, : SIZE // 2] != 0).sum()) == 3
    with pytest.raises(ValueError, match="section 1 of 4 pairs is too large: one in 3 of 8 pairs makes 3"):
        interleaved_sections(inverse_frequencies(SIZE, BASE), [2, 4, 2])
