"""Short texts cut into tiles, as only long ones are, and attended by kernels, as only an accelerator has."""

from typing import Any

import jax.numpy as jnp
import pytest

from model.attention import attention
from model.flash_machine import Tile


def cut_into_tiles(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """From one token on, tiles of so many, and blocks of as many rows for statistics. Programs have to be traced anew."""
    monkeypatch.setattr("model.flash.LONGEST_UNROLLED", 0)
    for name in ("flash.TILE", "flash_gradient.TILE", "columns.ROWS"):
        monkeypatch.setattr(f"model.{name}", size)
    monkeypatch.setattr("model.columns.CHUNKS", 3)


def by_kernel(monkeypatch: pytest.MonkeyPatch, rows: int, keys: int) -> None:
    """Every softmax by the kernels of a GPU, interpreted, by tiles of so many rows and keys. Trace programs anew."""
    monkeypatch.setattr("model.attention.platform", lambda: "interpreter")
    for name in ("flash_kernel", "flash_kernel_gradient"):
        monkeypatch.setattr(f"model.{name}.tile_of", lambda *_, **__: Tile(rows, keys))


def computed(monkeypatch: pytest.MonkeyPatch, form: int | tuple[int, int] | None) -> None:
    """As short texts are on a CPU (None), by tiles of so many tokens, or by kernels with tiles of so many rows and keys."""
    if isinstance(form, tuple):
        by_kernel(monkeypatch, *form)
    elif form is not None:
        cut_into_tiles(monkeypatch, form)


def summed(given: Any, sight: Any, padding: Any) -> Any:
    """The output of attention, all numbers added."""
    window, kept = sight
    out, _ = attention(**given, window=window, kept=kept, padding=padding)
    return jnp.sum(out.astype(jnp.float32))
