"""Rows of the ledger that every mechanism on Bigram-Backcopy can judge, besides those of experiments.claims."""

from experiments.evidence import Claim, trained
from experiments.studies.sinks_backcopy import STUDY, WITH

_GUO = "Guo et al. 2024, arXiv:2410.13835"
_GU = "Gu et al. 2025, arXiv:2410.10781"
_GUO_SCALE = "width 256, 256 tokens, batch 512, 10k steps"

BACKCOPY = (
    Claim(
        "guo-relu",
        "ReLU attention over the number of keys has no sink: at most a tenth of softmax's mass on BOS (bos_mass)",
        _GUO,
        "ReLU attention removes the sink",
        STUDY,
        trained(
            lambda softmax, relu: 0.1 * softmax - relu,
            (f"softmax{WITH}", "bos_mass"),
            (f"relu_by_keys{WITH}", "bos_mass"),
        ),
        _GUO_SCALE,
    ),
    Claim(
        "guo-relu-value",
        "ReLU attention does not drain the value of BOS: its norm ratio is above softmax's",
        _GUO,
        "ReLU attention removes the value drain",
        STUDY,
        trained(
            lambda softmax, relu: relu - softmax,
            (f"softmax{WITH}", "bos_value_ratio"),
            (f"relu_by_keys{WITH}", "bos_value_ratio"),
        ),
        _GUO_SCALE,
    ),
    Claim(
        "guo-gap",
        "The logit of BOS stands above the mean of the others (Δ logit > 0)",
        _GUO,
        "Δ logit grows with training",
        STUDY,
        trained(lambda gap: gap, (f"softmax{WITH}", "logit_gap")),
        _GUO_SCALE,
    ),
    Claim(
        "guo-dormant",
        "The head is dormant where nothing is copied: all attention on BOS costs less there than a tenth of what copies lose",
        _GUO,
        "dormant except on triggers",
        STUDY,
        trained(
            lambda drawn, copied: 0.1 * copied - drawn,
            (f"softmax{WITH}", "change_forced.bigram_loss"),
            (f"softmax{WITH}", "change_forced.backcopy_loss"),
        ),
        _GUO_SCALE,
    ),
    Claim(
        "guo-peak",
        "Three layers under Adam have a residual peak: the norm of BOS behind some layer is more than 1.5 times the others'",
        _GUO,
        "residual-state peak",
        STUDY,
        trained(lambda peak: peak - 1.5, ("three_layers", "residual_norm_ratio")),
        _GUO_SCALE,
    ),
    Claim(
        "guo-sgd-peak",
        "Under SGD the residual peak is lower",
        _GUO,
        "SGD removes the residual peak",
        STUDY,
        trained(
            lambda adam, sgd: adam - sgd,
            ("three_layers", "residual_norm_ratio"),
            ("three_layers_sgd", "residual_norm_ratio"),
        ),
        _GUO_SCALE,
    ),
    Claim(
        "guo-relu-peak",
        "With ReLU attention the residual peak is lower",
        _GUO,
        "ReLU attention removes the residual peak",
        STUDY,
        trained(
            lambda softmax, relu: softmax - relu,
            ("three_layers", "residual_norm_ratio"),
            ("three_layers_relu", "residual_norm_ratio"),
        ),
        _GUO_SCALE,
    ),
    Claim(
        "gu-one-channel",
        "One learned channel of a K bias draws at least a tenth of the mass that a whole K bias does",
        f"{_GU}, Table 13",
        "sink rate of the bias 32.18 % with one channel, 69.19 % with 64",
        STUDY,
        trained(
            lambda whole, one: one - 0.1 * whole,
            (f"k_bias{WITH}", "logit_mass"),
            (f"k_bias_1{WITH}", "logit_mass"),
        ),
        "60M parameters, 5B tokens",
    ),
    Claim(
        "gu-k-bias-backcopy",
        "A K bias removes the sink of the first token: at most a tenth of softmax's sink rate is left",
        f"{_GU}, Table 4",
        "sink rate 18.18 % → 0.00 %",
        STUDY,
        trained(lambda softmax, bias: 0.1 * softmax - bias, (f"softmax{WITH}", "sink_rate"), (f"k_bias{WITH}", "sink_rate")),
        "60M parameters, 5B tokens",
    ),
    Claim(
        "bos-needed",
        "With BOS more attention rests on the first token than without",
        _GU,
        "sink rate 18.18 % → 74.11 % with a fixed first token",
        STUDY,
        trained(
            lambda fixed, absent: fixed - absent,
            (f"softmax{WITH}", "bos_mass"),
            ("softmax_bos=absent", "bos_mass"),
        ),
        "60M parameters, 5B tokens",
    ),
)
