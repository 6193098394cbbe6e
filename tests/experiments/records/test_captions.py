"""What is said of the text, or of the answers, that figures were measured on."""

from collections.abc import Mapping

import pytest

from leadline.experiments.records.captions import count, measured_text
from tests.experiments.synthetic_records import made, measured

COUNTS = (
    measured("windows", 256.0, length=128),
    measured("documents", 54.0, length=128),
    measured("windows", 64.0, length=128, of="perplexity"),
    measured("documents", 40.0, length=128, of="perplexity"),
    measured("windows", 1024.0, of="frequency"),
    measured("documents", 80.0, of="frequency"),
    measured("answers", 512.0, length=128),
    measured("answers", 32.0, length=128, distance=4),
)

CASES: Mapping[str, tuple[str, str]] = {
    "of text that is counted by itself": ("perplexity", "64 windows from 40 documents"),
    "of the text of the loss": ("sink_rate", "256 windows from 54 documents"),
    "of answers at all distances": ("recall_accuracy", "512 answers"),
    "of all text": ("", "64 to 1,024 windows from 40 to 80 documents"),
}


@pytest.mark.parametrize(("quantity", "text"), CASES.values(), ids=CASES)
def test_a_figure_names_its_own_sample(quantity: str, text: str) -> None:
    assert measured_text([made(measurements=COUNTS)], {"length": 128}, quantity) == text


def test_the_loss_of_a_bin_of_ids_names_the_text_of_the_bins() -> None:
    at = {"length": 128, "frequency_bin": 1}
    assert measured_text([made(measurements=COUNTS)], at, "loss") == "1,024 windows from 80 documents"


def test_the_loss_of_a_bin_of_ids_names_its_targets_where_they_are_counted() -> None:
    counts = (*COUNTS, measured("targets", 667.0, frequency_bin=1), measured("targets", 9000.0, frequency_bin=8))
    text = measured_text([made(measurements=counts)], {"length": 128, "frequency_bin": 1}, "loss")
    assert text == "667 targets from 1,024 windows from 80 documents"


def test_weights_are_measured_on_no_text() -> None:
    assert not measured_text([made(measurements=COUNTS)], {"length": 128}, "row_norm")


def test_a_part_of_the_answers_that_is_not_counted_is_not_called_all_of_them() -> None:
    assert measured_text([made(measurements=COUNTS)], {"length": 128, "part": "middle"}, "accuracy") == "a part of 512 answers"


def test_sinks_and_losses_name_windows_of_their_own_lengths() -> None:
    config = {"data": {"kind": "text", "length": 128}, "measure": {"sink": {"length": 64}}}
    counts = measured("windows", 256.0, length=128), measured("windows", 100.0, length=64)
    record = made(measurements=counts, config=config)
    assert [measured_text([record], {}, name) for name in ("loss", "sink_rate")] == ["256 windows", "100 windows"]


def test_the_most_exact_count_of_answers_is_named() -> None:
    assert measured_text([made(measurements=COUNTS)], {"length": 128, "distance": 4}, "recall_accuracy") == "32 answers"


@pytest.mark.parametrize(("number", "text"), [(999, "999"), (999_400, "999k"), (999_700, "1M"), (1.234e9, "1.23G")])
def test_a_count_has_three_digits_and_the_letter_of_its_size(number: float, text: str) -> None:
    assert count(number) == text
