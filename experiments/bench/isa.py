"""Hides AVX-512 from JAX, oneDNN and MKL in contestants."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from leadline.experiments.runtime.errors import UserError

# `xor ecx, ecx; xgetbv` asks which registers the operating system keeps, the low bits of XCR0: 5 to 7 are those of AVX-512
# (Intel 64 manual, volume 1, section 13.3). `lea eax, [rcx + 7]`, as long, answers x87, SSE and AVX: AMX is hidden too.
QUESTION, ANSWER = bytes.fromhex("31c90f01d0"), bytes.fromhex("31c98d4107")
# The settings of oneDNN and MKL. PyTorch's own kernels keep AVX-512: with ATEN_CPU_CAPABILITY=avx2 a step that torch.compile of
# PyTorch 2.13.0 compiles on a CPU with AVX-512 computes NaN.
OF_PEERS = {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}


def without_avx512(folder: Path) -> dict[str, str]:
    """Environment variables of a process in which JAX, and the matrix products of PyTorch, use no AVX-512.

    XLA's own code has a setting. Its matrix products are YNNPACK's, which has none and asks the processor: the process gets a
    copy of jaxlib in which every such question has the answer of a processor without AVX-512.

    Args:
        folder: an empty folder, which gets the copy (about 350 MB).

    Raises:
        UserError: if no question is found, as in a jaxlib for another kind of processor.
    """
    spec = find_spec("jaxlib")
    assert spec is not None and spec.submodule_search_locations is not None
    copy = shutil.copytree(spec.submodule_search_locations[0], folder / "jaxlib")
    if not sum(_answered(path) for path in copy.glob("*.so*")):
        raise UserError("--without-avx512: no question for AVX-512 is known in this jaxlib, which has to be one for x86-64")
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa=AVX2".strip()
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"XLA_FLAGS": flags, "PYTHONPATH": path, **OF_PEERS}


def _answered(library: Path) -> int:
    """Replaces the questions of a library, and returns how many there were."""
    content = library.read_bytes()
    if count := content.count(QUESTION):
        library.write_bytes(content.replace(QUESTION, ANSWER))
    return count
