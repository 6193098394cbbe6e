"""Parameters of released models against transformers on the meta device, where weights have shapes and no memory.

The sizes are the defaults of the classes of configurations where these are those of a release: nobody here wrote them.
"""

from collections.abc import Callable

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    DeepseekV2Config,
    DeepseekV2ForCausalLM,
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from leadline.experiments.config.exact import Released
from leadline.experiments.measure.shapes import parameters
from tests.experiments.committed import COMMITTED

pytestmark = pytest.mark.oracle
(EXACT,) = [study.exact for _, study in COMMITTED if isinstance(study.exact, Released)]


def llama(width: int, hidden: int, layers: int, heads: int, kv_heads: int, **more: int | bool) -> LlamaConfig:
    return LlamaConfig(
        hidden_size=width,
        intermediate_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=width // heads,
        **more,
    )


def qwen2() -> Qwen2Config:
    sizes = {"num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4}
    return Qwen2Config(vocab_size=152064, hidden_size=3584, intermediate_size=18944, tie_word_embeddings=False, **sizes)


def gemma_2_9b() -> Gemma2Config:
    sizes = {"num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8}
    return Gemma2Config(hidden_size=3584, intermediate_size=14336, **sizes)


def gemma_3_12b() -> Gemma3TextConfig:
    sizes = {"num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 8}
    return Gemma3TextConfig(vocab_size=262208, hidden_size=3840, intermediate_size=15360, **sizes)


def deepseek_v2() -> DeepseekV2Config:
    experts = {"n_routed_experts": 160, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1}
    sizes = {"num_hidden_layers": 60, "num_attention_heads": 128, "num_key_value_heads": 128, "moe_intermediate_size": 1536}
    return DeepseekV2Config(hidden_size=5120, intermediate_size=12288, **sizes, **experts)


CASES: dict[str, Callable[[], PreTrainedModel]] = {
    "bert_base": lambda: BertModel(BertConfig()),
    "gpt2_small": lambda: GPT2LMHeadModel(GPT2Config()),
    "llama_7b": lambda: LlamaForCausalLM(LlamaConfig()),
    "llama_3_8b": lambda: LlamaForCausalLM(llama(4096, 14336, 32, 32, 8, vocab_size=128256)),
    "smollm2_135m": lambda: LlamaForCausalLM(llama(576, 1536, 30, 9, 3, vocab_size=49152, tie_word_embeddings=True)),
    "deepseek_67b": lambda: LlamaForCausalLM(llama(8192, 22016, 95, 64, 8, vocab_size=102400)),
    "mistral_7b": lambda: MistralForCausalLM(MistralConfig()),
    "mixtral_8x7b": lambda: MixtralForCausalLM(MixtralConfig()),
    "qwen25_7b": lambda: Qwen2ForCausalLM(qwen2()),
    "gemma_2_2b": lambda: Gemma2ForCausalLM(Gemma2Config()),
    "gemma_2_9b": lambda: Gemma2ForCausalLM(gemma_2_9b()),
    "gemma_3_12b": lambda: Gemma3ForCausalLM(gemma_3_12b()),
    "gpt_oss_20b": lambda: GptOssForCausalLM(GptOssConfig(num_hidden_layers=24, num_local_experts=32)),
    "deepseek_v2": lambda: DeepseekV2ForCausalLM(deepseek_v2()),
    "deepseek_v3": lambda: DeepseekV3ForCausalLM(DeepseekV3Config()),
}


@pytest.mark.parametrize("name", CASES)
def test_a_released_model_has_the_parameters_of_transformers(name: str) -> None:
    with torch.device("meta"):
        model = CASES[name]()
    assert sum(parameters(EXACT.models[name]).values()) == sum(weight.numel() for weight in model.parameters())
