"""Published peaks of accelerators: dense bfloat16 matrix products, without sparsity."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Peak:
    """FLOP/s of one device, and the source."""

    flops: float
    source: str


# By the beginning of the name that JAX gives the device. Of several that fit, the longest counts.
PEAKS = {
    "NVIDIA H200": Peak(989.5e12, "NVIDIA H200 datasheet: 1,979 TFLOPS with sparsity, half of it without"),
    "NVIDIA H100": Peak(989.5e12, "NVIDIA H100 datasheet, SXM: 1,979 TFLOPS with sparsity, half of it without"),
    "NVIDIA H100 PCIe": Peak(756e12, "NVIDIA H100 datasheet, PCIe: 1,513 TFLOPS with sparsity, half of it without"),
    "NVIDIA A100": Peak(312e12, "NVIDIA A100 datasheet"),
    "TPU v4": Peak(275e12, "Google Cloud documentation, TPU v4"),
    "TPU v5 lite": Peak(197e12, "Google Cloud documentation, TPU v5e"),
    "TPU v5": Peak(459e12, "Google Cloud documentation, TPU v5p"),
    "TPU v6 lite": Peak(918e12, "Google Cloud documentation, TPU v6e"),
}


def published_peak(kind: str) -> Peak | None:
    """The peak of the device that JAX gives this name; None where none is known."""
    fitting = [name for name in PEAKS if kind.startswith(name)]
    return PEAKS[max(fitting, key=len)] if fitting else None
