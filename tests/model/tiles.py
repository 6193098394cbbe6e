"""Short texts cut into tiles, as only long ones are."""

import pytest


def cut_into_tiles(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """From one token on, tiles of so many, and blocks of as many rows for statistics. Programs have to be traced anew."""
    monkeypatch.setattr("model.flash.LONGEST_UNROLLED", 0)
    for name in ("flash.TILE", "flash_gradient.TILE", "columns.ROWS"):
        monkeypatch.setattr(f"model.{name}", size)
    monkeypatch.setattr("model.columns.CHUNKS", 3)
