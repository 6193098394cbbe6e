"""The ledger's rows on retrieval. Lengths are those of the study's CPU configuration: trained at 64, measured to 256."""

from experiments.evidence import Claim, trained
from experiments.studies.retrieval import STUDY

_LIU = "Liu et al. 2023, arXiv:2307.03172"
_KAZEMNEJAD = "Kazemnejad et al. 2023, arXiv:2305.19466"
_LOST = "accuracy lowest with the key in the middle of the context"
_NOPE = "NoPE generalises to longer problems than explicit encodings"


def _lost_in_the_middle(arm: str, title: str, length: int, where: str) -> Claim:
    return Claim(
        f"liu-middle-{arm}-{length}",
        f"Key-value lookup with {title} {where}: accuracy in the middle quarter is below that of both end eighths",
        _LIU,
        _LOST,
        STUDY,
        trained(
            lambda first, middle, last: min(first, last) - middle,
            *((arm, f"accuracy_{place}.key_value.{length}") for place in ("first", "middle", "last")),
        ),
    )


def _nope_over(arm: str, title: str, task: str, size: str) -> Claim:
    return Claim(
        f"kazemnejad-{task}-{arm}",
        f"NoPE {size} right more often than {title} does, on problems of up to twice the length of any in training",
        _KAZEMNEJAD,
        _NOPE,
        STUDY,
        trained(lambda nope, other: nope - other, ("nope", f"accuracy.{task}.128"), (arm, f"accuracy.{task}.128")),
    )


RETRIEVAL = (
    _lost_in_the_middle("rope", "RoPE", 64, "at the training length"),
    _lost_in_the_middle("rope", "RoPE", 256, "at four times the training length"),
    _nope_over("rope", "RoPE", "copy", "copies strings"),
    _nope_over("alibi", "ALiBi", "copy", "copies strings"),
    _nope_over("rope", "RoPE", "addition", "adds numbers"),
    _nope_over("alibi", "ALiBi", "addition", "adds numbers"),
)
