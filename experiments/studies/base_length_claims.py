"""The claims that the study of base and length can judge."""

from experiments.evidence import Claim
from experiments.studies import base_length_evidence as evidence
from experiments.studies.base_vs_length import STUDY

_MEN = "Men et al. 2024, arXiv:2405.14591"

BASE_VS_LENGTH = (
    Claim(
        "men-perplexity-flat",
        "Perplexity is nearly flat over RoPE bases: at each length the highest is at most 5 % above the lowest",
        _MEN,
        "perplexity nearly flat over bases (7B fine-tuned to 32k, 2B pretrained at 4096)",
        STUDY,
        evidence.perplexity_is_flat,
    ),
    Claim(
        "men-recall-not-flat",
        "Retrieval is not flat over RoPE bases: above chance the worst base recalls at most half of what the best does",
        _MEN,
        "Long-eval accuracy collapses below the bound of the base",
        STUDY,
        evidence.recall_is_not_flat,
    ),
    Claim(
        "men-within-reach",
        "Recall beyond the first distance with B_m < 0 is below recall within it",
        _MEN,
        "the base bounds the context from which a model retrieves",
        STUDY,
        evidence.beyond_is_below_within,
    ),
    Claim(
        "men-reach",
        "A model recalls from no further than twice the first distance with B_m < 0",
        _MEN,
        'the base bounds the context from which a model retrieves; the authors call it "not very strict"',
        STUDY,
        evidence.reach_is_bounded,
    ),
    Claim(
        "men-superficial",
        "A base too small for the length can be within 5 % of the best perplexity and recall at most half beyond its reach",
        _MEN,
        "superficial long context: base 2e5 had the best perplexity and a poor Long-eval",
        STUDY,
        evidence.superficial,
    ),
    Claim(
        "men-base-100",
        "With base 100 recall from beyond half the training length is at most half of that within the predicted reach",
        _MEN,
        "2B model, base 100, trained at 4096: retrieves from about the 500 newest tokens only",
        STUDY,
        evidence.base_100_forgets,
    ),
)
