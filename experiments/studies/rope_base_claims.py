"""The ledger's rows on the lower bound of the RoPE base."""

from experiments.evidence import Claim
from experiments.studies.bound_evidence import exponent, printed_base, printed_counts, printed_infimum, threshold
from experiments.studies.men_table_4 import SOURCE as MEN_TABLE_4
from experiments.studies.published_bases import BLOG, MEN, SU
from experiments.studies.rope_base import STUDY

_MEN_PAPER = "Men et al. 2024, arXiv:2405.14591"
_SMALLEST = "{} is the smallest that meets the condition, to its two digits"
_EVERY = "Every base printed keeps B_m non-negative at every distance below its context"

ROPE_BASE = (
    Claim(
        "men-4k",
        "The base printed for a context of 4k, 2.7e4, keeps B_m non-negative at every distance below it",
        MEN.source,
        "2.7e4",
        STUDY,
        printed_base("Men", 4096),
    ),
    Claim(
        "men-8k",
        "The base printed for a context of 8k, 8.4e4, keeps B_m non-negative at every distance below it",
        MEN.source,
        "8.4e4",
        STUDY,
        printed_base("Men", 8192),
    ),
    Claim("men-feasible", _EVERY, MEN.source, "4.3e3 for 1k to 5.1e8 for 1M", STUDY, printed_base("Men")),
    Claim("su-feasible", _EVERY, SU.source, "4.3e3 for 1k to 6.5e7 for 1M", STUDY, printed_base("Su")),
    Claim("blog-feasible", _EVERY, BLOG.source, "4.5e4 for 4k to 6.5e7 for 1M", STUDY, printed_base("blog")),
    Claim(
        "men-2k-smallest",
        _SMALLEST.format("The base printed for a context of 2k, 1.6e4,"),
        MEN.source,
        "1.6e4",
        STUDY,
        printed_infimum("Men", 2048),
    ),
    Claim(
        "su-2k-smallest",
        _SMALLEST.format("The base printed for a context of 2k, 1.2e4,"),
        SU.source,
        "1.2e4",
        STUDY,
        printed_infimum("Su", 2048),
    ),
    Claim(
        "men-smallest",
        _SMALLEST.format("Every base printed"),
        MEN.source,
        "4.3e3 for 1k to 5.1e8 for 1M",
        STUDY,
        printed_infimum("Men"),
    ),
    Claim(
        "su-smallest",
        _SMALLEST.format("Every base printed"),
        SU.source,
        "4.3e3 for 1k to 6.5e7 for 1M",
        STUDY,
        printed_infimum("Su"),
    ),
    Claim(
        "men-threshold",
        "The lower bound is a threshold: every base above the smallest one meets the condition",
        f"{_MEN_PAPER} (a lower bound for the base)",
        "one bound a context length",
        STUDY,
        threshold,
    ),
    Claim(
        "su-linear",
        "The smallest base grows linearly with the context: the exponent of its power law is 1",
        f"{SU.source} (many pairs: b ≥ N / 0.6165)",
        "exponent 1",
        STUDY,
        exponent(1.0),
    ),
    Claim(
        "men-power-law",
        "The smallest base grows with the context to the power of 1.628",
        f"{_MEN_PAPER}, Figure 1",
        "0.0424 N^1.628",
        STUDY,
        exponent(1.628),
    ),
    Claim(
        "men-table-4",
        "Frequencies of base 5e6 leave B_m negative at 0 and 0 distances up to 15k and 30k, base 1e4 with its slow pairs "
        "slowed by 8 at 97 and 2554",
        f"{MEN_TABLE_4} (under the heading B ≥ 0)",
        "0, 0, 97, 2554",
        STUDY,
        printed_counts,
    ),
)
