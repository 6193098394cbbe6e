"""Models in one GGUF file."""

from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader

from leadline.experiments.published.checkpoint import Entry
from leadline.experiments.published.gguf_file import open_gguf
from leadline.experiments.published.gguf_header import read_header
from leadline.experiments.runtime.errors import UserError
from leadline.tokenization.formats.gguf import GgufTokenizer
from tests.experiments.published import tiny
from tests.experiments.published.tiny import gguf_metadata, gguf_tensors, llama3_divisors, tiny_gguf, write_gguf


def _permuted(weight: np.ndarray, heads: int) -> np.ndarray:
    """`LlamaModel.permute` of llama.cpp's convert_hf_to_gguf.py."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_names_and_shapes_are_those_of_the_hub(tmp_path: Path, architecture: str) -> None:
    checkpoint = open_gguf(tiny_gguf(tmp_path / "a.gguf", architecture), "a")
    layer = {
        "input_layernorm.weight": (64,),
        "self_attn.q_proj.weight": (64, 64),
        "self_attn.k_proj.weight": (32, 64),
        "self_attn.v_proj.weight": (32, 64),
        "self_attn.o_proj.weight": (64, 64),
        "post_attention_layernorm.weight": (64,),
        "mlp.gate_proj.weight": (96, 64),
        "mlp.up_proj.weight": (96, 64),
        "mlp.down_proj.weight": (64, 96),
    }
    more = {
        "llama": {},
        "qwen2": {"self_attn.q_proj.bias": (64,), "self_attn.k_proj.bias": (32,), "self_attn.v_proj.bias": (32,)},
        "qwen3": {"self_attn.q_norm.weight": (16,), "self_attn.k_norm.weight": (16,)},
    }[architecture]
    expected = {"model.embed_tokens.weight": (7, 64), "model.norm.weight": (64,)}
    expected |= {f"model.layers.{number}.{name}": shape for number in range(2) for name, shape in (layer | more).items()}
    assert checkpoint.entries == {name: Entry(shape, "F32") for name, shape in expected.items()}


def test_the_configuration_has_the_keys_of_config_json(tmp_path: Path) -> None:
    checkpoint = open_gguf(tiny_gguf(tmp_path / "a.gguf"), "a")
    assert checkpoint.config == {
        "model_type": "llama",
        "vocab_size": 7,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "hidden_act": "silu",
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "rope_theta": 5e5,
        "rope_scaling": None,
        "tie_word_embeddings": True,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "attention_bias": False,
        "mlp_bias": False,
    }


def test_an_output_matrix_is_the_head(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf", gguf_metadata(), gguf_tensors(tied=False))
    checkpoint = open_gguf(path, "a")
    assert checkpoint.config["tie_word_embeddings"] is False
    assert np.array_equal(checkpoint.read("lm_head.weight"), gguf_tensors(tied=False)["output.weight"][0])


def test_queries_and_keys_of_llama_are_rotated_halves_again(tmp_path: Path) -> None:
    query, key = np.arange(64.0, dtype=np.float32)[:, None] + np.zeros((1, 64), np.float32), np.eye(32, 64, dtype=np.float32)
    bias = np.arange(64.0, dtype=np.float32)
    tensors = gguf_tensors()
    for name, values, heads in (("attn_q.weight", query, 4), ("attn_k.weight", key, 2), ("attn_q.bias", bias, 4)):
        tensors[f"blk.1.{name}"] = (_permuted(values, heads), GGMLQuantizationType.F32)
    checkpoint = open_gguf(write_gguf(tmp_path / "a.gguf", gguf_metadata(), tensors), "a")
    for name, values in (("q_proj.weight", query), ("k_proj.weight", key), ("q_proj.bias", bias)):
        assert np.array_equal(checkpoint.read(f"model.layers.1.self_attn.{name}"), values), name


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_queries_of_qwen_stay_as_they_are(tmp_path: Path, architecture: str) -> None:
    checkpoint = open_gguf(tiny_gguf(tmp_path / "a.gguf", architecture), "a")
    query = gguf_tensors(architecture)["blk.0.attn_q.weight"][0]
    assert np.array_equal(checkpoint.read("model.layers.0.self_attn.q_proj.weight"), query)


@pytest.mark.parametrize(("kind", "dtype"), [("F32", np.float32), ("F16", np.float16), ("BF16", ml_dtypes.bfloat16)])
def test_floats_are_views_of_the_file(tmp_path: Path, kind: str, dtype: type) -> None:
    checkpoint = open_gguf(tiny_gguf(tmp_path / "a.gguf", matrices=kind), "a")
    values = checkpoint.read("model.layers.0.mlp.up_proj.weight")
    written = gguf_tensors()["blk.0.ffn_up.weight"][0]
    assert checkpoint.entries["model.layers.0.mlp.up_proj.weight"] == Entry((96, 64), kind)
    assert values.dtype == dtype
    assert not values.flags.owndata and not values.flags.writeable
    assert np.array_equal(values.astype(np.float32), written.astype(dtype).astype(np.float32))


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1"])
def test_quantised_weights_are_dequantised(tmp_path: Path, kind: str) -> None:
    path = write_gguf(tmp_path / "a.gguf", gguf_metadata("qwen3"), gguf_tensors("qwen3", kind), "qwen3")
    values = open_gguf(path, "a").read("model.layers.0.self_attn.q_proj.weight")
    written = gguf_tensors("qwen3")["blk.0.attn_q.weight"][0]
    quantised = GGMLQuantizationType[kind]
    assert values.dtype == np.float32
    assert np.array_equal(values, gguf.dequantize(gguf.quantize(written, quantised), quantised))


@pytest.mark.parametrize(("kind", "bytes_of_row", "scales"), [("Q4_K", 144, (0, 2)), ("Q6_K", 210, (208,))])
def test_k_quantised_weights_are_dequantised(tmp_path: Path, kind: str, bytes_of_row: int, scales: tuple[int, ...]) -> None:
    """Which the library does not write. Rows of 256 numbers are one block each."""
    rows = np.random.default_rng(0).integers(0, 256, (96, bytes_of_row), np.uint8)
    for offset in scales:
        rows[:, offset : offset + 2] = np.frombuffer(np.float16(0.5).tobytes(), np.uint8)
    quantised = GGMLQuantizationType[kind]
    tensors = {
        "token_embd.weight": (np.zeros((7, 256), np.float32), GGMLQuantizationType.F32),
        "blk.0.ffn_up.weight": (rows, quantised),
    }
    checkpoint = open_gguf(write_gguf(tmp_path / "a.gguf", gguf_metadata(embedding_length=256), tensors), "a")
    assert checkpoint.entries["model.layers.0.mlp.up_proj.weight"] == Entry((96, 256), kind)
    values = checkpoint.read("model.layers.0.mlp.up_proj.weight")
    assert np.array_equal(values, gguf.dequantize(rows, quantised))


@pytest.mark.parametrize("kind", ["F32", "Q8_0", "Q4_1"])
def test_the_header_is_what_the_library_reads(tmp_path: Path, kind: str) -> None:
    path = tiny_gguf(tmp_path / "a.gguf", matrices=kind)
    header, reader = read_header(path), GGUFReader(path)
    fields = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    assert header.metadata == {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    described = {
        tensor.name: (tuple(tensor.shape.tolist()[::-1]), tensor.tensor_type.name, tensor.data_offset, tensor.n_bytes)
        for tensor in reader.tensors
    }
    assert header.tensors == described


def test_the_tokenizer_is_that_of_the_metadata(tmp_path: Path) -> None:
    assert open_gguf(tiny_gguf(tmp_path / "a.gguf"), "a").tokenizer == GgufTokenizer(
        model="gpt2",
        pre="smollm",
        tokens=tuple(tiny.TOKENS),
        merges=("a b", "Ġ a"),
        scores=None,
        token_types=(3, 3, 1, 1, 1, 1, 1),
        bos=0,
        eos=1,
        unk=None,
        pad=None,
        add_bos=False,
        add_space_prefix=None,
    )


def test_without_a_tokenizer_there_is_none(tmp_path: Path) -> None:
    metadata = {key: value for key, value in gguf_metadata().items() if not key.startswith("tokenizer")}
    assert open_gguf(write_gguf(tmp_path / "a.gguf", metadata, gguf_tensors()), "a").tokenizer is None


@pytest.mark.parametrize(
    ("changes", "scaling"),
    [
        ({"rope__scaling__type": "none"}, None),
        ({"rope__scaling__type": "linear", "rope__scaling__factor": 4.0}, {"rope_type": "linear", "factor": 4.0}),
        (
            {
                "rope__scaling__type": "yarn",
                "rope__scaling__factor": 2.0,
                "rope__scaling__original_context_length": 64,
                "rope__scaling__yarn_beta_fast": 16.0,
                "rope__scaling__finetuned": True,
            },
            {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64, "beta_fast": 16.0},
        ),
    ],
)
def test_rope_scaling_is_that_of_config_json(tmp_path: Path, changes: dict[str, Any], scaling: object) -> None:
    assert open_gguf(tiny_gguf(tmp_path / "a.gguf", **changes), "a").config["rope_scaling"] == scaling


def test_divisors_of_frequencies_are_those_of_llama_3(tmp_path: Path) -> None:
    divisors = llama3_divisors(8.0)
    assert len(set(divisors.tolist())) == 3
    tensors = gguf_tensors() | {"rope_freqs.weight": (divisors, GGMLQuantizationType.F32)}
    checkpoint = open_gguf(write_gguf(tmp_path / "a.gguf", gguf_metadata(), tensors), "a")
    assert checkpoint.config["rope_scaling"] == {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    assert "rope_freqs.weight" not in checkpoint.entries


@pytest.mark.parametrize("divisors", [2 * np.ones(8), np.ones(7), np.full(8, np.inf)])
def test_other_divisors_are_refused(tmp_path: Path, divisors: np.ndarray) -> None:
    tensors = gguf_tensors() | {"rope_freqs.weight": (divisors.astype(np.float32), GGMLQuantizationType.F32)}
    with pytest.raises(UserError, match=r"rope_freqs.weight holds other frequencies than those of Llama 3.1"):
        open_gguf(write_gguf(tmp_path / "a.gguf", gguf_metadata(), tensors), "a")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rope__freq_base": None}, r"the metadata lack llama\.rope\.freq_base"),
        ({"rope__freq_base": -1.0}, r"llama\.rope\.freq_base is -1\.0, and must be a positive number"),
        ({"rope__freq_base": float("nan")}, r"llama\.rope\.freq_base is nan"),
        ({"rope__freq_base": "big"}, r"llama\.rope\.freq_base is 'big'"),
        ({"attention__layer_norm_rms_epsilon": None}, r"lack llama\.attention\.layer_norm_rms_epsilon"),
        ({"attention__head_count": None}, r"lack llama\.attention\.head_count"),
        ({"attention__head_count": [4, 4]}, r"llama\.attention\.head_count is '\(4, 4\)', and must be a whole number"),
        ({"attention__head_count": 0}, r"llama\.attention\.head_count is 0"),
        ({"attention__head_count": 8}, r"k_proj\.weight has 32 rows, not 2 heads of an even size 8"),
        ({"block_count": None}, r"lack llama\.block_count"),
        ({"block_count": 1}, r"'blk\.1\.attn_norm\.weight' has no place in a model of architecture llama, 1 layers"),
        ({"block_count": 2**31}, r"llama\.block_count is 2147483648, and there are 20 tensors; convert it again"),
        ({"embedding_length": None}, r"lack llama\.embedding_length"),
        ({"feed_forward_length": None}, r"lack llama\.feed_forward_length"),
        ({"context_length": None}, r"lack llama\.context_length"),
        ({"vocab_size": 8}, r"llama\.vocab_size is not 7, the rows of token_embd\.weight"),
        ({"rope__dimension_count": 8}, r"llama\.rope\.dimension_count is not 16, the size of a head"),
        ({"attention__value_length": 8}, r"llama\.attention\.value_length is not 16"),
        ({"attention__sliding_window": 64}, r"'llama\.attention\.sliding_window' = '64' has no place in config\.json"),
        ({"expert_count": 8}, r"'llama\.expert_count' = '8' has no place"),
        ({"rope__scaling__type": "longrope"}, r"rope\.scaling\.type 'longrope' cannot be read"),
        ({"rope__scaling__type": "linear"}, r"lack llama\.rope\.scaling\.factor"),
        ({"rope__scaling__factor": 4.0}, r"'llama\.rope\.scaling\.factor' = '4\.0' has no place"),
        ({"rope__scale_linear": 4.0}, r"'llama\.rope\.scale_linear' = '4\.0' has no place"),
    ],
)
def test_metadata_that_are_missing_or_have_no_place_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_gguf(tiny_gguf(tmp_path / "a.gguf", **changes), "a")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": [*tiny.TOKENS, "c"]}, "has 8 tokens, and the embedding 7 rows"),
        ({"tokens": [1, 2]}, "tokens must be an array of str"),
        ({"token_type": [1, 1]}, "must have a value for each of 7 tokens"),
        ({"bos_token_id": 7}, "bos_token_id is 7, and there are 7 tokens"),
        ({"add_bos_token": 1}, "add_bos_token is '1', and must be bool"),
    ],
)
def test_a_tokenizer_that_disagrees_with_itself_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    metadata = gguf_metadata() | {f"tokenizer.ggml.{key}": value for key, value in changes.items()}
    with pytest.raises(UserError, match=message):
        open_gguf(write_gguf(tmp_path / "a.gguf", metadata, gguf_tensors()), "a")


def test_other_architectures_are_refused_by_name(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf", {}, {}, "gemma3")
    with pytest.raises(UserError, match="architecture 'gemma3'; those that can be read from GGUF are llama, qwen2, qwen3"):
        open_gguf(path, "a")


@pytest.mark.parametrize("name", ["blk.0.attn_q_norm.weight", "blk.0.ffn_gate_exps.weight", "blk.00.attn_q.weight", "other"])
def test_a_tensor_of_another_model_is_refused_by_name(tmp_path: Path, name: str) -> None:
    tensors = gguf_tensors() | {name: (np.ones(32, np.float32), GGMLQuantizationType.F32)}
    with pytest.raises(UserError, match=f"the tensor '{name}' has no place"):
        open_gguf(write_gguf(tmp_path / "a.gguf", gguf_metadata(), tensors), "a")


def test_other_types_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\.weight is of type Q5_0; those that can be read are F32, F16, BF16, Q8_0, Q4_0"):
        open_gguf(tiny_gguf(tmp_path / "a.gguf", matrices="Q5_0"), "a")


def test_one_file_of_several_is_refused(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf", gguf_metadata() | {"split.count": 3}, gguf_tensors())
    with pytest.raises(UserError, match="one file of several"):
        open_gguf(path, "a")
