"""Synthetic records for tests: invented numbers in the shape that the studies write. Nothing here was measured."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from experiments.measure.perplexity import position_edges
from experiments.record import Record, record_folder, write_record

LENGTHS = (128, 256, 512, 1024)
STEPS = range(0, 601, 50)
SINK_ARMS = ("softmax", "off_by_one", "learned_logit", "headwise_gate", "elementwise_gate", "value_gate")

# Invented final values, in the order: bos_mass, bos_value_ratio, first_token_mass, sink_rate, logit_mass, loss,
# activation_ratio, gate_mean.
_SINKS = {
    "softmax": (0.90, 0.20, 0.72, 0.99, 0.0, 3.050, 14.0, None),
    "off_by_one": (0.85, 0.21, 0.66, 0.90, 0.06, 3.050, 13.0, None),
    "learned_logit": (0.70, 0.24, 0.55, 0.72, 0.21, 3.050, 12.0, None),
    "headwise_gate": (0.20, 0.55, 0.21, 0.12, 0.0, 3.042, 6.0, 0.31),
    "elementwise_gate": (0.26, 0.95, 0.24, 0.15, 0.0, 3.044, 6.5, 0.38),
    "value_gate": (0.88, 0.06, 0.70, 0.97, 0.0, 3.046, 13.0, 0.27),
}

# Invented whole-window perplexities at LENGTHS.
_PERPLEXITY = {
    ("rope", "none"): (5.0, 5.6, 7.4, 10.7),
    ("rope", "pi"): (5.0, 8.7, 13.8, 19.3),
    ("rope", "ntk"): (5.0, 5.3, 6.2, 8.7),
    ("rope", "yarn"): (5.0, 5.5, 6.0, 7.7),
    ("alibi", "none"): (6.1, 6.1, 6.0, 6.0),
}


def record(study: str, arm: str, seed: int = 0, **changes: object) -> Record:
    """A valid record with nothing measured, and the given fields."""
    fields: dict[str, object] = {
        "study": study,
        "arm": arm,
        "arm_hash": "0123456789ab",
        "seed": seed,
        "status": "finished",
        "config": {
            "model": {"layers": 1, "width": 64},
            "data": {"length": 128 if study == "extrapolation" else 64},
            "head_dim": 128,
        },
        "data": {"name": "synthetic", "digest": "00"},
        "commit": "0000000000000000",
        "dirty": False,
        "created": f"2026-01-02T03:04:0{seed}Z",
        "versions": {"jax": "0.0.0"},
        "device": {"platform": "cpu", "kind": "synthetic", "count": 1},
        "steps": 600,
        "tokens": 1_228_800,
        "seconds": 12.5,
        "flops": 1e12,
        "parameters": 58_000,
        "measurements": {},
    }
    return Record.model_validate(fields | changes)


def measured(values: Mapping[str, float | None], unit: str = "share") -> dict[str, object]:
    """Measurements of one unit, as a record takes them."""
    return {name: {"value": value, "unit": unit} for name, value in values.items()}


def sinks(arm: str, seed: int) -> tuple[Record, list[dict[str, object]], dict[str, np.ndarray]]:
    rng = np.random.default_rng([seed, len(arm)])
    bos, ratio, first, rate, logit, loss, activation, gate = _SINKS[arm]
    noise = float(rng.normal(0, 0.01))
    shares = {
        "bos_mass": bos + noise,
        "bos_value_ratio": max(ratio + noise, 0.01),
        "first_token_mass": first + noise,
        "sink_rate": min(rate + noise, 1.0),
        "logit_mass": max(logit + noise, 0.0) if logit else 0.0,
        "activation_ratio": activation + 10 * noise,
    }
    if gate is not None:
        shares |= {"gate_mean": gate + noise, "gate_under_0.1": 0.5 * gate}
    losses = {"loss": loss + noise / 20, "bigram_loss": 3.59 + noise / 20, "backcopy_loss": 0.03 + abs(noise) / 20}
    curves: list[dict[str, object]] = [
        {
            "step": step,
            "loss": 4.2 - 1.15 * step / 600,
            "bos_mass": max(0.05, shares["bos_mass"] * (1 - np.exp(-step / 120))),
        }
        for step in STEPS
    ]
    arrays = {"first_token_mass": np.array([[shares["first_token_mass"]]], np.float32)}
    measurements = measured(shares) | measured(losses, "nats")
    return record("sinks", arm, seed, measurements=measurements), curves, arrays


def extrapolation(
    arm: str, seed: int, study: str = "extrapolation", start: str | None = None
) -> tuple[Record, list[dict[str, object]], dict[str, np.ndarray]]:
    """An arm of either study of perplexity; one that starts from another has the values of RoPE with that extension."""
    shift = float(np.random.default_rng([seed, len(arm)]).normal(0, 0.15))
    values: dict[str, float | None] = {"loss": 1.6, "activation_ratio": 20.0}
    arrays: dict[str, np.ndarray] = {"first_token_mass": np.full((2, 4), 0.05, np.float32)}
    for (owner, extension), row in _PERPLEXITY.items():
        if owner == (arm if start is None else start) and (start is None or extension == "none"):
            for length, perplexity in zip(LENGTHS, row, strict=True):
                way = f"{extension}.{length}"
                values[f"perplexity.{way}"] = perplexity + shift
                values[f"perplexity_windows.{way}"] = perplexity + shift
                values[f"perplexity_documents.{way}"] = perplexity + shift + 0.2
                values[f"perplexity_last64.{way}"] = perplexity**1.25 * 0.9 + shift
                edges = position_edges(length)
                arrays[f"position_edges.{length}"] = edges
                arrays[f"loss_by_position.{way}"] = np.linspace(2.5, np.log(perplexity + shift), len(edges) - 1)
    values |= {f"sink_rate.{length}": 0.01 for length in LENGTHS}
    values |= {f"first_token_mass.{length}": 4 / length for length in LENGTHS}
    curves: list[dict[str, object]] = [{"step": step, "loss": 5.0 - step / 150} for step in STEPS]
    config: dict[str, object] = {"model": {"layers": 1, "width": 64}, "data": {"length": 128 if start is None else 512}}
    if start is not None:
        config |= {"start": {"arm": start, "length": 128, "steps": 600}}
        config["model"] = {"layers": 1, "width": 64, "position": {"kind": "rope", "scaling": {"kind": "yarn"}}}
    return record(study, arm, seed, measurements=measured(values, "1"), config=config), curves, arrays


_BOUNDS = {  # length: (infimum, largest_infeasible, islands), invented near the published size
    1024: (4293.0, 6018.0, 5),
    2048: (11587.0, 22800.0, 9),
    4096: (26952.0, 58800.0, 16),
    8192: (83764.0, 394000.0, 20),
}
_PRINTED = {  # length: {source: (value, first_violation, violations, minimum)}, the last three invented
    1024: {"Men et al. 2024, Table 2": (4.3e3, None, 0, 0.01), "Su 2024": (4.3e3, None, 0, 0.01)},
    2048: {"Men et al. 2024, Table 2": (1.6e4, None, 0, 0.2), "Su 2024": (1.2e4, 2000, 3, -0.1)},
    4096: {"Men et al. 2024, Table 2": (2.7e4, 4079, 2, -0.02), "Su 2024": (2.7e4, 4079, 2, -0.02)},
    8192: {"Men et al. 2024, Table 2": (8.4e4, None, 0, 0.03), "Su 2024": (8.4e4, None, 0, 0.03)},
}


def rope_base(length: int) -> tuple[Record, list[dict[str, object]], dict[str, np.ndarray]]:
    infimum, largest, islands = _BOUNDS[length]
    published = {
        source: {
            "value": value,
            "feasible": least >= 0,
            "first_violation": first,
            "violations": count,
            "minimum": least,
        }
        for source, (value, first, count, least) in _PRINTED[length].items()
    }
    values = {"infimum": infimum, "largest_infeasible": largest, "islands": float(islands)}
    config = {"head_dim": 128, "length": length, "inclusive": False, "every": 1}
    changes = {"steps": 0, "tokens": 0, "parameters": 0, "config": config, "data": {"published": published}}
    arrays = {"islands": np.array([[infimum, infimum + 10.0], [largest, np.inf]])}
    return record("rope_base", f"d128-{length // 1024}k", measurements=measured(values, "1"), **changes), [], arrays


def synthetic_results(results: Path) -> Path:
    """Writes synthetic records of all studies, three seeds of each trained arm, and returns the folder."""
    runs = [sinks(arm, seed) for arm in SINK_ARMS for seed in range(3)]
    runs += [extrapolation(arm, seed) for arm in ("rope", "alibi") for seed in range(3)]
    runs += [extrapolation(arm, seed, "encodings") for arm in ("rope", "alibi") for seed in range(3)]
    runs += [extrapolation("tuned_yarn", seed, "encodings", start="rope") for seed in range(3)]
    runs += [rope_base(length) for length in _BOUNDS]
    for made, curves, arrays in runs:
        folder = record_folder(results, made.study, made.arm, made.arm_hash, made.seed)
        write_record(folder, made, curves, arrays)
    return results
