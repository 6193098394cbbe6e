"""Positions, windows, chunks and sinks that differ by layer, as the config.json of published models have them."""

from typing import Any

import numpy as np
import pytest

from leadline.experiments.config.model import ModelConfig
from leadline.experiments.config.to_model import sink_logits
from leadline.experiments.config.to_tables import tables
from leadline.model.attention.mask import NO_WINDOW
from leadline.model.positions.angles import UNIT

# Which layers of MiMo-V2-Flash are windowed: hybrid_layer_pattern.
MIMO = [layer > 0 and (layer + 1) % 6 != 0 for layer in range(48)]
# By model: its settings, and for each layer its window (None: none) and its RoPE base (None: no positions).
PATTERNS: dict[str, tuple[dict[str, Any], list[tuple[int | None, float | None]]]] = {
    "gpt-oss-20b: layer_types from sliding_attention on, rope_theta 150000": (
        {
            "layers": 24,
            "window": 128,
            "windowed": [True, False],
            "sink": "learned",
            "position": {"kind": "rope", "base": 1.5e5},
        },
        [(128, 1.5e5), (None, 1.5e5)] * 12,
    ),
    "gemma-2-2b: every second layer": (
        {"layers": 26, "window": 4096, "windowed": [True, False], "position": {"kind": "rope", "base": 1e4}},
        [(4096, 1e4), (None, 1e4)] * 13,
    ),
    "gemma-3-1b: sliding_window_pattern 6, rope_local_base_freq 10000, rope_theta 1000000": (
        {
            "layers": 26,
            "window": 512,
            "windowed": [*[True] * 5, False],
            "window_position": {"kind": "rope", "base": 1e4},
            "position": {"kind": "rope", "base": 1e6},
        },
        ([*[(512, 1e4)] * 5, (None, 1e6)] * 5)[:26],
    ),
    "Llama-4-Scout: no_rope_layers every 4, attention_chunk_size 8192 in the others, rope_theta 500000": (
        {
            "layers": 48,
            "window": 8192,
            "windowed": [True, True, True, False],
            "chunked": True,
            "position": {"kind": "rope", "base": 5e5, "nope_every": 4, "temperature": {"strength": 0.1, "span": 8192}},
        },
        [*[(8192, 5e5)] * 3, (None, None)] * 12,
    ),
    "MiMo-V2-Flash: hybrid_layer_pattern, swa_rope_theta 10000, rope_theta 5000000, add_swa_attention_sink_bias": (
        {
            "layers": 48,
            "window": 128,
            "windowed": MIMO,
            "window_position": {"kind": "rope", "base": 1e4},
            "window_sink": {"kind": "learned"},
            "position": {"kind": "rope", "base": 5e6},
        },
        [(128, 1e4) if windowed else (None, 5e6) for windowed in MIMO],
    ),
    "c4ai-command-r7b: three sliding layers, then one without positions, rope_theta 50000": (
        {
            "layers": 32,
            "window": 4096,
            "windowed": [True, True, True, False],
            "window_position": {"kind": "rope", "base": 5e4},
            "position": "nope",
        },
        [*[(4096, 5e4)] * 3, (None, None)] * 8,
    ),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_a_published_pattern_of_layers_is_written_by_windows_and_positions(name: str) -> None:
    settings, layers = PATTERNS[name]
    model = ModelConfig.model_validate({"width": 64, "heads": 4} | settings)
    rows = tables(model, 64)
    windows = [NO_WINDOW if window is None else window for window, _ in layers]
    assert rows.window.tolist() == windows
    assert rows.chunk.tolist() == (windows if "Llama-4" in name else [NO_WINDOW] * len(windows))
    frequencies = np.asarray(rows.frequencies.units, np.float64) * UNIT + np.asarray(rows.frequencies.remainder)
    pairs = -2 * np.arange(8) / 16
    expected = np.stack([np.zeros(8) if base is None else base**pairs for _, base in layers])
    np.testing.assert_allclose(frequencies[:, 0], expected, rtol=1e-12, atol=1e-12)
    hot = [base is None and "Llama-4" in name for _, base in layers]
    assert rows.temperature.tolist() == pytest.approx([0.1 if layer else 0.0 for layer in hot])


@pytest.mark.parametrize(
    ("sinks", "expected"),
    [
        ({"window_sink": {"kind": "learned", "logit": 0.5, "rate": 4.0}}, ([0.5, -np.inf, 0.5], 4.0)),
        ({"sink": "learned", "window_sink": "none"}, ([-np.inf, 0.0, -np.inf], 1.0)),
    ],
)
def test_layers_with_the_window_have_a_sink_of_their_own(sinks: dict[str, Any], expected: tuple[list[float], float]) -> None:
    mixed = {"layers": 3, "width": 64, "heads": 4, "position": "nope", "window": 8, "windowed": [True, False]}
    logits, rate = sink_logits(ModelConfig.model_validate(mixed | sinks))
    assert (logits.tolist(), rate) == expected
