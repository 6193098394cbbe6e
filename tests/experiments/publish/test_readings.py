"""What is drawn of a quantity along an axis."""

from leadline.experiments.publish.readings import reached


def test_what_was_once_above_counts_from_then_on() -> None:
    assert reached({300.0: 0.1, 100.0: 0.2, 200.0: 0.4}, above=0.3) == {100.0: 0.0, 200.0: 1.0, 300.0: 1.0}
