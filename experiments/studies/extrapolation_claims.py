"""Rows of the ledger that perplexity past the training length can judge.

Perplexities are token-weighted over whole windows unless a statement says otherwise. The training length is 128: 256, 512, 1024
and 4096 are 2, 4, 8 and 32 times it. Fine-tuned arms go on from RoPE at 4 times the training length, with the factor 4.
"""

from collections.abc import Callable, Sequence

from experiments.evidence import Claim, Evidence, Quantity, trained
from experiments.record import Record
from experiments.studies import extrapolation, extrapolation_encodings

Judge = Callable[[Sequence[Record]], Evidence | None]
_PRESS = "Press et al. 2022, arXiv:2108.12409"
_CHEN = "Chen et al. 2023, arXiv:2306.15595, section 3.2"
_PENG = "Peng et al. 2023, arXiv:2309.00071, Table 1 (Llama-2 7B fine-tuned to 8192)"
_YARN_19 = "jquesnelle/yarn issue 19"
_QIU = "Qiu et al. 2025, arXiv:2505.06708 (RULER; YaRN by 4 on models of context 32k, without fine-tuning)"


def _perplexity(arm: str, extension: str, length: int, last64: bool = False) -> tuple[str, str]:
    return arm, f"perplexity{'_last64' if last64 else ''}.{extension}.{length}"


def _above(high: Quantity, low: Quantity) -> Judge:
    """One perplexity is above another."""
    return trained(lambda high, low: high - low, high, low, digits=2)


def _at_most(ratio: float, near: Quantity, far: Quantity) -> Judge:
    """The far perplexity is at most `ratio` times the near one."""
    return trained(lambda near, far: ratio - far / near, near, far, digits=2)


def _at_least(ratio: float, near: Quantity, far: Quantity) -> Judge:
    return trained(lambda near, far: far / near - ratio, near, far, digits=2)


def _flatter(other: Quantity, other_far: Quantity, near: Quantity, far: Quantity) -> Judge:
    """The second perplexity rises by a smaller factor than the first."""
    return trained(lambda a, a_far, b, b_far: a_far / a - b_far / b, other, other_far, near, far, digits=2)


EXTRAPOLATION = (
    Claim(
        "press-rope",
        "RoPE's perplexity of the last 64 positions is at least twice as high at 8 times the training length as at it",
        _PRESS,
        "rotary perplexity degrades past the training length (Figure 1)",
        extrapolation.STUDY,
        _at_least(2.0, _perplexity("rope", "none", 128, last64=True), _perplexity("rope", "none", 1024, last64=True)),
    ),
    Claim(
        "press-alibi-flat",
        "ALiBi's perplexity is at most 5 % higher at 8 times the training length than at it",
        _PRESS,
        "19.73 at 512 → 18.40 at 3072, trained at 512",
        extrapolation.STUDY,
        _at_most(1.05, _perplexity("alibi", "none", 128), _perplexity("alibi", "none", 1024)),
    ),
    Claim(
        "press-alibi-rope",
        "At 8 times the training length ALiBi's perplexity is below RoPE's",
        _PRESS,
        "past the training length rotary degrades, ALiBi does not (Figure 1)",
        extrapolation.STUDY,
        _above(_perplexity("rope", "none", 1024), _perplexity("alibi", "none", 1024)),
    ),
    Claim(
        "chen-pi",
        "At 4 times the training length, without fine-tuning, PI's perplexity is below unscaled RoPE's",
        _CHEN,
        "below 20 against above 1000 (LLaMA 7B, 2048 → 8192)",
        extrapolation.STUDY,
        _above(_perplexity("rope", "none", 512), _perplexity("rope", "pi", 512)),
    ),
    Claim(
        "bloc97-ntk",
        "At 8 times the training length, without fine-tuning, NTK-aware scaling's perplexity is below unscaled RoPE's",
        "bloc97 2023, NTK-aware scaled RoPE; Peng et al. 2023, arXiv:2309.00071",
        "longer contexts without fine-tuning at little perplexity",
        extrapolation.STUDY,
        _above(_perplexity("rope", "none", 1024), _perplexity("rope", "ntk", 1024)),
    ),
    Claim(
        "yarn-pi",
        "At 8 times the training length, without fine-tuning, YaRN's perplexity is below PI's",
        _PENG,
        "6.04 against 8.07 at 10240",
        extrapolation.STUDY,
        _above(_perplexity("rope", "pi", 1024), _perplexity("rope", "yarn", 1024)),
    ),
    Claim(
        "yarn-ntk-far",
        "At 8 times the training length, without fine-tuning, YaRN's perplexity is below NTK-aware scaling's",
        f"{_YARN_19}; {_PENG}",
        "YaRN better in longer windows; 6.04 against 6.24 at 10240",
        extrapolation.STUDY,
        _above(_perplexity("rope", "ntk", 1024), _perplexity("rope", "yarn", 1024)),
    ),
    Claim(
        "yarn-ntk-near",
        "At twice the training length, without fine-tuning, NTK-aware scaling's perplexity is below YaRN's",
        _YARN_19,
        "NTK-aware better in shorter windows",
        extrapolation.STUDY,
        _above(_perplexity("rope", "yarn", 256), _perplexity("rope", "ntk", 256)),
    ),
)

ENCODINGS = (
    Claim(
        "chen-pi-alone",
        "Without fine-tuning, PI's perplexity at 4 times the training length is more than 10 % above RoPE's at it",
        _CHEN,
        "needs a short fine-tuning (within 1000 steps)",
        extrapolation_encodings.STUDY,
        _at_least(1.1, _perplexity("rope", "none", 128), _perplexity("rope", "pi", 512)),
    ),
    Claim(
        "chen-pi-tuned",
        "After fine-tuning at 4 times the training length, PI's perplexity there is at most 5 % above RoPE's at the training "
        "length",
        _CHEN,
        "quality is kept after fine-tuning (within 1000 steps)",
        extrapolation_encodings.STUDY,
        _at_most(1.05, _perplexity("rope", "none", 128), _perplexity("tuned_pi", "none", 512)),
    ),
    Claim(
        "bloc97-ntk-alone",
        "Without fine-tuning, NTK-aware scaling's perplexity at twice the training length is at most 5 % above RoPE's at it",
        "bloc97 2023, NTK-aware scaled RoPE; Peng et al. 2023, arXiv:2309.00071",
        "longer contexts without fine-tuning at little perplexity",
        extrapolation_encodings.STUDY,
        _at_most(1.05, _perplexity("rope", "none", 128), _perplexity("rope", "ntk", 256)),
    ),
    Claim(
        "peng-temperature",
        "At 8 times the training length, without fine-tuning, YaRN's perplexity is below that of its frequencies without its "
        "attention factor (NTK-by-parts)",
        "Peng et al. 2023, arXiv:2309.00071, section 3.3",
        "a temperature of the softmax lowers perplexity over the whole extended window",
        extrapolation_encodings.STUDY,
        _above(_perplexity("rope", "ntk_by_parts", 1024), _perplexity("rope", "yarn", 1024)),
    ),
    Claim(
        "peng-tuned-within",
        "Fine-tuned at 4 times the training length, YaRN's perplexity there is below NTK-aware scaling's",
        _PENG,
        "3.35 against 3.59 at 8192",
        extrapolation_encodings.STUDY,
        _above(_perplexity("tuned_ntk", "none", 512), _perplexity("tuned_yarn", "none", 512)),
    ),
    Claim(
        "peng-tuned-beyond",
        "Fine-tuned at 4 times the training length, YaRN's perplexity at twice that is below PI's",
        _PENG,
        "6.04 against 8.07 at 10240",
        extrapolation_encodings.STUDY,
        _above(_perplexity("tuned_pi", "none", 1024), _perplexity("tuned_yarn", "none", 1024)),
    ),
    Claim(
        "press-alibi-flat-32",
        "ALiBi's perplexity is at most 5 % higher at 32 times the training length than at it",
        _PRESS,
        "19.73 at 512 → 18.40 at 3072, trained at 512",
        extrapolation_encodings.STUDY,
        _at_most(1.05, _perplexity("alibi", "none", 128), _perplexity("alibi", "none", 4096)),
    ),
    Claim(
        "press-sinusoidal",
        "Sinusoidal positions fail: the last 64 positions at 4 times the training length have at least twice their perplexity "
        "at it",
        _PRESS,
        "sinusoidal, rotary and T5 models degrade past the training length, ALiBi's do not (Figure 1)",
        extrapolation_encodings.STUDY,
        _at_least(
            2.0, _perplexity("sinusoidal", "none", 128, last64=True), _perplexity("sinusoidal", "none", 512, last64=True)
        ),
    ),
    Claim(
        "press-learned",
        "Learned positions fail where none were trained: the last 64 positions at 4 times the training length have at least "
        "twice their perplexity at it",
        "Press et al. 2022, arXiv:2108.12409, section 1",
        "a learned table has no positions past the training length",
        extrapolation_encodings.STUDY,
        _at_least(2.0, _perplexity("learned", "none", 128, last64=True), _perplexity("learned", "none", 512, last64=True)),
    ),
    Claim(
        "press-t5",
        "At 4 times the training length the perplexity of T5's buckets is below RoPE's",
        _PRESS,
        "T5's bias reaches further than rotary, which reaches further than sinusoidal",
        extrapolation_encodings.STUDY,
        _above(_perplexity("rope", "none", 512), _perplexity("t5", "none", 512)),
    ),
    Claim(
        "liu-small-base",
        "Trained on at the training length, RoPE with base 20 has at 8 times the length a lower perplexity than with base "
        "10000 (at 20 every pair makes a turn within 128 tokens)",
        "Liu et al. 2023, arXiv:2310.05209",
        "fine-tuning at the training length with a smaller base improves extrapolation (Llama-2, base 500)",
        extrapolation_encodings.STUDY,
        _above(_perplexity("tuned_short", "none", 1024), _perplexity("tuned_base20", "none", 1024)),
    ),
    Claim(
        "kazemnejad-nope",
        "Without positions perplexity rises by a smaller factor from the training length to 8 times it than with RoPE",
        "Kazemnejad et al. 2023, arXiv:2305.19466 (accuracy on downstream tasks at twice the training length)",
        "NoPE generalises to longer inputs better than every explicit encoding",
        extrapolation_encodings.STUDY,
        _flatter(
            _perplexity("rope", "none", 128),
            _perplexity("rope", "none", 1024),
            _perplexity("nope", "none", 128),
            _perplexity("nope", "none", 1024),
        ),
    ),
    Claim(
        "qiu-yarn",
        "Extended by YaRN to 4 times the training length without fine-tuning, the perplexity of RoPE with an elementwise "
        "output gate rises by a smaller factor than without a gate",
        _QIU,
        "at 128k 31.65 without, 58.82 with a gate; at 32k 79.50 and 79.77 before YaRN, 37.94 and 72.88 after",
        extrapolation_encodings.STUDY,
        _flatter(
            _perplexity("rope", "none", 128),
            _perplexity("rope", "yarn", 512),
            _perplexity("rope_gated", "none", 128),
            _perplexity("rope_gated", "yarn", 512),
        ),
    ),
    Claim(
        "gopalakrishnan-pope",
        "PoPE's perplexity rises by a smaller factor from the training length to 8 times it than RoPE's",
        "Gopalakrishnan et al. 2025, arXiv:2509.10534",
        "PoPE extrapolates without fine-tuning, RoPE degrades (124M to 774M, 1024 → 10240)",
        extrapolation_encodings.STUDY,
        _flatter(
            _perplexity("rope", "none", 128),
            _perplexity("rope", "none", 1024),
            _perplexity("pope", "none", 128),
            _perplexity("pope", "none", 1024),
        ),
    ),
)
