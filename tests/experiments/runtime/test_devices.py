"""Published figures of accelerators, by the names of JAX and by those of the command line."""

import pytest

from leadline.experiments.runtime.devices import ACCELERATORS, accelerator_named, accelerator_of
from leadline.experiments.runtime.errors import UserError


def test_the_longest_name_of_a_device_counts() -> None:
    assert accelerator_of("NVIDIA H100 PCIe") is ACCELERATORS["h100-pcie"]
    assert accelerator_of("NVIDIA H100 80GB HBM3") is ACCELERATORS["h100"]
    assert accelerator_of("NVIDIA A100-SXM4-40GB") is ACCELERATORS["a100-40gb"]
    assert accelerator_of("TPU v5 lite") is ACCELERATORS["tpu-v5e"]
    assert accelerator_of("cpu") is None


def test_an_unknown_device_is_one_line_with_those_that_are_known() -> None:
    with pytest.raises(UserError, match=r"--device h10: its figures are not known; choose from a100-40gb, .*, tpu-v6e$"):
        accelerator_named("h10")


def test_a_gpu_is_not_taken_whole() -> None:
    assert ACCELERATORS["h100"].usable == 60e9
    assert ACCELERATORS["tpu-v6e"].usable == ACCELERATORS["tpu-v6e"].memory


@pytest.mark.parametrize("name", ACCELERATORS)
def test_figures_are_of_one_order(name: str) -> None:
    """FLOP to a byte of memory traffic lie between 100 and 600 for all of these."""
    device = ACCELERATORS[name]
    assert device.float32 <= device.bfloat16
    assert 100 < device.bfloat16 / device.bandwidth < 600
