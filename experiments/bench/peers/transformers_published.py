"""SmolLM2-135M in transformers, from the same GGUF file: a forward pass, and statistics of its eager attention."""

from typing import Any

import torch
from transformers import AutoModelForCausalLM

from leadline.experiments.bench.worker import Prepared
from leadline.experiments.bench.workloads.published import gguf_file, ids


def prepare_forward(tokens: int) -> Prepared:
    """Logits of all tokens, by scaled dot-product attention."""
    model, x = _loaded("sdpa"), torch.from_numpy(ids(tokens))

    def work() -> Any:
        with torch.inference_mode():
            return model(x, use_cache=False).logits

    return Prepared(work, often=False, more=lambda scores: {"value": float(scores.square().mean().sqrt())})


def prepare_statistics(tokens: int) -> Prepared:
    """Attention to the first token, entropy and received attention of every head, from the matrices, and the losses.

    The matrices of a layer are dropped once they are summed up: those of all layers of 4096 tokens would take 18 GB.
    """
    model, x = _loaded("eager"), torch.from_numpy(ids(tokens))
    sums: list[tuple[Any, Any, Any]] = []

    def summed(module: Any, inputs: Any, output: tuple[Any, Any]) -> tuple[Any, None]:  # noqa: ARG001
        out, p = output
        sums.append((p[..., 0].mean(dim=(0, 2)), torch.special.entr(p).sum(-1).mean(dim=(0, 2)), p.sum(2)))
        return out, None

    for layer in model.model.layers:
        layer.self_attn.register_forward_hook(summed)

    def work() -> Any:
        sums.clear()
        with torch.inference_mode():
            logits = model(x, use_cache=False).logits
            losses = torch.nn.functional.cross_entropy(logits[0], torch.roll(x[0], -1), reduction="none")
        return losses, torch.stack([first for first, _, _ in sums])

    return Prepared(work, often=False, more=lambda result: {"value": float(result[1].mean())})


def _loaded(attention: str) -> Any:
    path = gguf_file()
    return AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation=attention
    ).eval()
