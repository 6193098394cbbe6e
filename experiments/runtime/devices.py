"""Accelerators by their published figures."""

from dataclasses import dataclass

from leadline.experiments.runtime.errors import UserError

# Of a GPU's memory, what JAX takes when it starts (XLA_PYTHON_CLIENT_MEM_FRACTION). A TPU is taken whole.
OF_A_GPU = 0.75


@dataclass(frozen=True)
class Accelerator:
    """One device.

    Attributes:
        kind: the beginning of the name that JAX gives it. Of several that fit, the longest counts.
        memory: bytes.
        bfloat16: FLOP/s of dense products, without sparsity.
        float32: FLOP/s of products of float32 as JAX makes them by default: in TF32 on a GPU, and in one pass of bfloat16 on a
            TPU.
        bandwidth: of the memory, bytes a second.
        source: of these figures.
    """

    kind: str
    memory: float
    bfloat16: float
    float32: float
    bandwidth: float
    source: str

    @property
    def usable(self) -> float:
        """Bytes that JAX gives to programs unless it is told otherwise."""
        return self.memory * (OF_A_GPU if self.kind.startswith("NVIDIA") else 1.0)

    def peak(self, dtype: str) -> float:
        """FLOP/s of products of this type."""
        return self.float32 if dtype == "float32" else self.bfloat16


# Datasheets of NVIDIA give most rates with sparsity, which doubles them; these are without.
ACCELERATORS = {
    "a100-40gb": Accelerator("NVIDIA A100-SXM4-40GB", 40e9, 312e12, 156e12, 1.555e12, "NVIDIA A100 datasheet, 40GB SXM"),
    "a100": Accelerator("NVIDIA A100", 80e9, 312e12, 156e12, 2.039e12, "NVIDIA A100 datasheet, 80GB SXM"),
    "h100": Accelerator("NVIDIA H100", 80e9, 989.5e12, 494.5e12, 3.35e12, "NVIDIA H100 datasheet, SXM"),
    "h100-pcie": Accelerator("NVIDIA H100 PCIe", 80e9, 756e12, 378e12, 2.0e12, "NVIDIA H100 datasheet, PCIe"),
    "h200": Accelerator("NVIDIA H200", 141e9, 989.5e12, 494.5e12, 4.8e12, "NVIDIA H200 datasheet, SXM"),
    "b200": Accelerator("NVIDIA B200", 180e9, 2.25e15, 1.1e15, 7.7e12, "NVIDIA HGX B200 datasheet, an eighth"),
    "l40s": Accelerator("NVIDIA L40S", 48e9, 362.05e12, 183e12, 864e9, "NVIDIA L40S datasheet"),
    "rtx4090": Accelerator(
        "NVIDIA GeForce RTX 4090", 24e9, 165.2e12, 82.6e12, 1.008e12, "NVIDIA Ada GPU architecture, appendix A, float32 sums"
    ),
    "tpu-v4": Accelerator("TPU v4", 32e9, 275e12, 275e12, 1.2e12, "Google Cloud documentation, TPU v4"),
    "tpu-v5e": Accelerator("TPU v5 lite", 16e9, 197e12, 197e12, 819e9, "Google Cloud documentation, TPU v5e"),
    "tpu-v5p": Accelerator("TPU v5", 95e9, 459e12, 459e12, 2.765e12, "Google Cloud documentation, TPU v5p"),
    "tpu-v6e": Accelerator("TPU v6 lite", 32e9, 918e12, 918e12, 1.638e12, "Google Cloud documentation, TPU v6e"),
}


def accelerator_of(kind: str) -> Accelerator | None:
    """The accelerator that JAX gives this name; None where its figures are not known."""
    fitting = [entry for entry in ACCELERATORS.values() if kind.startswith(entry.kind)]
    return max(fitting, key=lambda entry: len(entry.kind)) if fitting else None


def accelerator_named(name: str) -> Accelerator:
    """The accelerator of this name in ACCELERATORS.

    Raises:
        UserError: for another name.
    """
    if name not in ACCELERATORS:
        raise UserError(f"--device {name}: its figures are not known; choose from {', '.join(ACCELERATORS)}")
    return ACCELERATORS[name]
