"""What a record of a cluster has to agree with."""

import pytest

from leadline.experiments.records.record import Record


def assert_equal_numbers(ours: dict[tuple[str, int], Record], theirs: dict[tuple[str, int], Record]) -> None:
    """The last digits may differ: here a group has one device, there as many as cores."""
    assert ours.keys() == theirs.keys()
    for key, record in ours.items():
        expected = theirs[key]
        assert (record.arm_hash, record.steps, record.tokens) == (expected.arm_hash, expected.steps, expected.tokens)
        for entry, other in zip(record.measurements, expected.measurements, strict=True):
            assert (entry.quantity, entry.dims) == (other.quantity, other.dims)
            assert entry.value == pytest.approx(other.value, rel=1e-3, abs=1e-4), (key, entry)
