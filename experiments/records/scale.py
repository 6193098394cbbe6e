"""The scale at which something was measured, in words."""

from collections.abc import Sequence

from leadline.experiments.records.record import Record


def count(number: float | int) -> str:
    """A number of parameters, steps or tokens as it is printed: `1.23M`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"


def scale(records: Sequence[Record]) -> str:
    """Parameters, layers, width, steps and tokens of trained records; `exact` for those that were computed."""
    trained = [record for record in records if record.steps > 0]
    if not trained:
        return "exact" if records else ""
    models = [model for record in trained if isinstance(model := record.config.get("model"), dict)]
    shapes = sorted({f"{model['layers']} layers of width {model['width']}" for model in models})
    numbers = (
        f"{_span([getattr(record, field) for record in trained])} {field}" for field in ("parameters", "steps", "tokens")
    )
    return ", ".join([*shapes, *numbers])


def _span(numbers: Sequence[int]) -> str:
    low, high = count(min(numbers)), count(max(numbers))
    return low if low == high else f"{low} to {high}"
