"""The forest plot of a ledger."""

from dataclasses import replace

import pytest

from leadline.experiments.publish.forest import forests, standardised
from tests.experiments.publish.test_ledger import PUBLISHED

HOLDS = replace(PUBLISHED, interval=(0.1, 0.3))


@pytest.mark.parametrize(
    ("interval", "null", "placed"),
    [((0.1, 0.3), 0.0, (1.0, 2.0, 3.0)), ((-0.1, 0.3), 0.0, (-0.5, 0.5, 1.5)), ((0.6, 1.0), 0.5, (0.5, 1.5, 2.5))],
)
def test_an_interval_is_measured_by_half_of_its_width(
    interval: tuple[float, float], null: float, placed: tuple[float, float, float]
) -> None:
    assert standardised(replace(PUBLISHED, interval=interval, null=null)) == pytest.approx(placed)


def test_claims_with_a_margin_are_drawn_by_name_and_no_others() -> None:
    none = [
        replace(HOLDS, id="exact", interval=None),
        replace(HOLDS, id="bounds", null=None),
        replace(HOLDS, id="point", interval=(0.1, 0.1)),
        replace(HOLDS, id="untestable", outcome="not testable here"),
    ]
    assert not list(forests(none))
    (drawn,) = forests([HOLDS, replace(HOLDS, id="other", outcome="undecided", interval=(-0.1, 0.2)), *none])
    text = drawn.svg.decode()
    assert [name for name in ("sinks: a", "sinks: other") if name in text] == ["sinks: a", "sinks: other"]
    assert "holds" in text and "undecided" in text and "fails" not in text
    assert not any(f"sinks: {verdict.id}" in text for verdict in none)


def test_each_column_of_the_ledger_has_a_figure_of_its_own() -> None:
    drawn = list(forests([replace(HOLDS, column="SmolLM2-135M"), HOLDS]))
    assert [drawing.name for drawing in drawn] == ["ledger_forest_toy_task", "ledger_forest_smollm2_135m"]
    assert [drawing.title.split("? ")[1] for drawing in drawn] == ["Toy task", "SmolLM2-135M"]
