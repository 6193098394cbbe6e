"""The architectures that can be loaded, by the `model_type` of their config.json."""

from leadline.experiments.published.architectures.base import Architecture
from leadline.experiments.published.architectures.bloom import BLOOM
from leadline.experiments.published.architectures.falcon import FALCON
from leadline.experiments.published.architectures.gemma import GEMMA
from leadline.experiments.published.architectures.gpt2 import GPT2
from leadline.experiments.published.architectures.gpt_neox import GPT_NEOX
from leadline.experiments.published.architectures.gpt_oss import GPT_OSS
from leadline.experiments.published.architectures.llama import LLAMA
from leadline.experiments.published.architectures.mpt import MPT
from leadline.experiments.published.architectures.phi import PHI
from leadline.experiments.published.architectures.phi3 import PHI3
from leadline.experiments.published.architectures.qwen3_next import QWEN3_NEXT

ALL = (BLOOM, FALCON, GEMMA, GPT2, GPT_NEOX, GPT_OSS, LLAMA, MPT, PHI, PHI3, QWEN3_NEXT)
ARCHITECTURES: dict[str, Architecture] = {kind: architecture for architecture in ALL for kind in architecture.model_types}
