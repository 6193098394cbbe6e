import gc

import pytest

from tokenization.garbage import no_cycles


def test_the_collector_stands_still_within_and_goes_on_behind():
    assert gc.isenabled()
    with no_cycles():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_behind_an_error():
    with pytest.raises(ValueError, match="within"), no_cycles():
        raise ValueError("within")
    assert gc.isenabled()


def test_one_that_was_off_stays_off():
    gc.disable()
    try:
        with no_cycles():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
