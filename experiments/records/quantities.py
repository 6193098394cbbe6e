"""The quantities that leadline measures: name, unit, meaning and source of each, in one table.

A measurement is a quantity with dimensions (records.measurement). A new measurement adds its row here, or
brings its own `Quantity` when a study plugs it in by `module:function`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal


@dataclass(frozen=True)
class Quantity:
    """What a number is."""

    name: str  # as records and configurations name it
    unit: str  # of the value; "1" for a pure number
    meaning: str  # one phrase, lower case, without a full stop
    label: str = ""  # the heading in tables and on axes; the name with blanks where it is empty
    source: str = ""  # the key of the paper that defines it (`leadline.experiments.records.references`), or ""
    axes: tuple[str, ...] = ()  # of the array that is measured, outermost first; () for a number
    # what one number is made of the array: "mean", "max", or None where no one number sums it up
    reduce: Literal["mean", "max"] | None = "mean"
    digits: int = 3  # decimals that tables show
    # what its sample is: windows of the training length, windows of measure.sink.length, or answers; weights have none
    counted: Literal["text", "sinks", "answers", "weights"] = "text"

    @property
    def heading(self) -> str:
        return self.label or self.name.replace("_", " ")


HEADS = ("layer", "head")
per_head = partial(Quantity, axes=HEADS)
per_layer = partial(Quantity, axes=("layer",))
peak = partial(per_layer, reduce="max")
array = partial(Quantity, reduce=None)
of_answers = partial(Quantity, counted="answers")
of_weights = partial(Quantity, counted="weights")


def table(quantities: Iterable[Quantity]) -> Mapping[str, Quantity]:
    """The quantities by name. ValueError for two of one name."""
    named: dict[str, Quantity] = {}
    for quantity in quantities:
        if quantity.name in named:
            raise ValueError(f"the quantity {quantity.name!r} is defined twice")
        named[quantity.name] = quantity
    return MappingProxyType(named)


QUANTITIES = table(
    (
        # Losses and perplexities of held-out data.
        Quantity("loss", "nats", "mean cross-entropy of held-out targets at the training length", "loss (nats)", digits=4),
        Quantity("train_loss", "nats", "mean cross-entropy of the last training batch", "training loss (nats)"),
        Quantity("bits_per_byte", "bits", "cross-entropy of held-out text per byte of it"),
        Quantity("perplexity", "1", "exp of the mean loss; token-weighted unless the protocol says otherwise", digits=2),
        array("loss_by_position", "nats", "mean loss in half-octave bins of positions", axes=("position_bin",)),
        array("position_edges", "tokens", "edges of the bins of positions", axes=("edge",)),
        Quantity("bigram_loss", "nats", "loss on targets drawn from the bigram", "bigram loss (nats)", "guo2024", digits=4),
        Quantity("bigram_excess", "nats", "bigram loss less the entropy of the bigram", "excess bigram loss (nats)", "guo2024"),
        Quantity("backcopy_loss", "nats", "loss on targets after a trigger", "backcopy loss (nats)", "guo2024", digits=4),
        Quantity("windows", "windows", "held-out windows that the figures are measured on", digits=0),
        Quantity("documents", "documents", "held-out documents that the windows come from", digits=0),
        # Attention sinks.
        per_head(
            "sink_rate",
            "share",
            "share of (sequence, layer, head) whose mean attention to a token, by default the first, is above ε = 0.3",
            source="gu2025",
            counted="sinks",
        ),
        per_head("first_token_mass", "share", "attention to the first token, mean over queries", counted="sinks"),
        per_head(
            "document_start_mass",
            "share",
            "attention to first tokens of documents and of the row, mean over queries",
            counted="sinks",
        ),
        Quantity("document_start_share", "share", "share of the tokens that begin a document or the row", counted="sinks"),
        per_head("sink_logit_mass", "share", "attention on the sink logit or the learned key bias", counted="sinks"),
        per_head("bos_mass", "share", "attention to BOS from queries t >= 8 that are no triggers", "BOS mass", "guo2024"),
        per_head("bos_value_ratio", "ratio", "|v| of BOS over the mean |v| for t >= 8", "BOS value drain ratio", "guo2024"),
        per_head("cross_bos_mass", "share", "cross-attention to the first token of a source, BOS", "cross-attention to BOS"),
        per_head("cross_eos_mass", "share", "cross-attention to the last token of a source, EOS", "cross-attention to EOS"),
        per_layer("cross_even_mass", "share", "cross-attention to a token if it were uniform", "uniform cross-attention"),
        per_head("far_mass", "share", "attention to the first token from the later half of the queries"),
        per_head("entropy", "nats", "entropy of the attention probabilities", "attention entropy (nats)", digits=2),
        per_head("value_drain_ratio", "ratio", "|v| of the first token over the mean |v| for t >= 8", source="guo2024"),
        per_head("key_norm_ratio", "ratio", "|k| of the first token over the mean |k| for t >= 8", source="gu2025"),
        peak(
            "residual_norm_ratio",
            "ratio",
            "|x| of the first token over the mean |x| for t >= 8, after a layer",
            "residual peak",
            "guo2024",
            digits=2,
        ),
        per_head("key_cosine", "cosine", "cosine of queries with the first key", "cosine, first key", "gu2025"),
        per_head("key_cosine_others", "cosine", "cosine of queries with the other keys", "cosine, others", "gu2025"),
        per_head("logit_gap", "logits", "mean score of the first key less that of the others"),
        per_head(
            "key_outside",
            "share",
            "share of the first key's squared length outside the directions that hold 95 % of the others'",
        ),
        per_head("key_dims", "dimensions", "directions that hold 95 % of the other keys' squared length", digits=1),
        Quantity("dormant_share", "share", "share of heads that give the first token more than ε", source="guo2024"),
        Quantity("active_dormant_share", "share", "share of heads dormant in one of two domains only", source="guo2024"),
        array(
            "received_by_position",
            "share",
            "attention that a key receives from the queries that see it, mean over heads, by half-octave bin of keys",
            source="gu2025",
            axes=("layer", "position_bin"),
        ),
        array("attention_map", "probability", "attention of one held-out sequence", axes=(*HEADS, "query", "key")),
        # Activations, gates, depth.
        peak(
            "activation_ratio",
            "ratio",
            "largest activation over the median, after a layer",
            "largest / median activation",
            "sun2024",
            digits=1,
        ),
        array(
            "massive_activations",
            "ratio",
            "the three largest activations over the median",
            source="sun2024",
            axes=("layer", "rank"),
        ),
        array("massive_channels", "channels", "channels of the largest activations", axes=("window", "layer", "rank")),
        array("massive_positions", "tokens", "positions of the largest activations", axes=("window", "layer", "rank")),
        per_layer("kurtosis", "ratio", "kurtosis of the residual stream after a layer", digits=1),
        per_layer("early_divergence", "nats", "KL from the final distribution to the one decoded after a layer"),
        per_layer("gradient_norm", "nats", "norm of the gradient of the loss by a layer's weights"),
        Quantity("gate_mean", "share", "mean of the gate", axes=("layer", "gate")),
        Quantity("gate_closed", "share", "share of gates below 0.1", "gates under 0.1", axes=("layer", "gate")),
        Quantity("loss_change", "nats", "increase of the loss by an intervention", "loss change (nats)", digits=4),
        per_head("head_removed", "nats", "increase of the loss where one head is removed", reduce="max"),
        # Vocabularies.
        Quantity("vocabulary_size", "ids", "ids of a tokenizer, specials included", digits=0),
        Quantity("bytes_per_token", "bytes", "bytes of UTF-8 of a text over its tokens", "bytes / token", digits=2),
        Quantity("unknown_share", "share", "share of tokens that are UNK", "UNK / tokens", digits=6),
        Quantity("embedding_share", "share", "share of the weights that are embedding and unembedding"),
        Quantity("rare_ids", "share", "share of the ids seen less than ten times in training"),
        Quantity("rare_tokens", "share", "share of held-out tokens seen less than ten times in training", digits=4),
        Quantity("occurrences", "tokens", "occurrences of an id in the training text, mean over ids", digits=0),
        Quantity("targets", "tokens", "held-out targets that a loss is of", digits=0),
        of_weights("row_change", "1", "length of the change of a row from where training began", "|change of a row|"),
        # Retrieval and recall.
        of_answers("accuracy", "share", "share of answers that are right in every token"),
        of_answers("token_accuracy", "share", "share of the tokens of answers that are right"),
        Quantity("answers", "answers", "answers that an accuracy is measured on", digits=0),
        array("accuracy_by_depth", "share", "right answers, by depth of the evidence", axes=("depth",)),
        array("answers_by_depth", "answers", "answers at each depth", axes=("depth",)),
        array("accuracy_by_size", "share", "right answers, by size of the problem", axes=("size",)),
        array("answers_by_size", "answers", "answers of each size", axes=("size",)),
        array("token_accuracy_by_depth", "share", "right tokens, by depth of their evidence", axes=("depth",)),
        array("tokens_by_depth", "tokens", "tokens of answers at each depth", axes=("depth",)),
        array("token_accuracy_by_distance", "share", "right tokens, by distance of evidence", axes=("distance",)),
        array("tokens_by_distance", "tokens", "tokens of answers at each distance", axes=("distance",)),
        # Coordinates of the arrays above: an axis is labelled by the quantity of its name.
        array("depth", "1", "position of the evidence over the length", axes=("depth",)),
        array("size", "symbols", "symbols of a copy, digits of an addend", axes=("size",)),
        array("distance", "tokens", "tokens from a query back to its evidence", axes=("distance",)),
        of_answers("recall_loss", "nats", "loss on the answers of associative recall", "recall loss (nats)"),
        of_answers("recall_accuracy", "share", "share of answers of associative recall that are right"),
        of_answers("reach", "tokens", "distance up to which recall above chance is at least half of its best", digits=0),
        Quantity("predicted_reach", "tokens", "first distance m with B_m = Σ cos(m θ_i) < 0", source="men2024", digits=0),
        # Lower bounds of the RoPE base (exact).
        Quantity("smallest_base", "1", "infimum of the RoPE bases with B_m >= 0 below the context", source="men2024", digits=1),
        Quantity("largest_infeasible_base", "1", "largest RoPE base with B_m < 0 somewhere below the context", digits=1),
        Quantity("islands", "intervals", "intervals of feasible bases below the largest infeasible base", digits=0),
        array("island_edges", "1", "edges of these intervals", axes=("island", "edge")),
        Quantity("printed_base", "1", "published RoPE base for this context", digits=0),
        Quantity("violations", "distances", "distances below the context with B_m < 0", source="men2024", digits=0),
        Quantity("printed_violations", "distances", "published number of distances with B_m < 0", digits=0),
        Quantity("first_violation", "tokens", "first distance with B_m < 0, sought below four contexts", digits=0),
        Quantity("smallest_similarity", "1", "smallest B_m below the context", "smallest B_m", "men2024"),
        array("similarity_sum", "1", "B_m at each distance m", "B_m", "men2024", axes=("distance",)),
        Quantity("growth_exponent", "1", "exponent of the power law of a base over the context", "exponent"),
        Quantity("growth_exponent_low", "1", "lower end of the exponent's 95 % interval", "exponent, low"),
        Quantity("growth_exponent_high", "1", "upper end of the exponent's 95 % interval", "exponent, high"),
        Quantity("growth_factor", "1", "factor of the power law of a base over the context", "factor", digits=4),
        Quantity("phase_error", "rad", "largest error of a rotation angle below a position, modulo 2π", digits=7),
        # The arithmetic of attention (exact).
        Quantity("score_variance", "1", "variance of q·k over all pairs", "variance of q·k", "vaswani2017", digits=4),
        Quantity("largest_probability", "share", "largest attention weight of a query"),
        Quantity("effective_keys", "keys", "exp of the entropy of a query's attention", digits=2),
        Quantity("jacobian_norm", "1", "Frobenius norm of diag(p) - p p^T, the softmax's Jacobian", "|Jacobian|", digits=5),
        Quantity(
            "relative_weight", "ratio", "largest attention of a query t > 1 to the first token over 1/t", "first token · t"
        ),
        Quantity("largest_difference", "1", "largest difference of two results in any entry", digits=7),
        Quantity("position_error", "tokens", "largest error of the positions that attention recovers", digits=4),
        Quantity("attention_span", "tokens", "distance to the farthest token that an output depends on", digits=0),
        Quantity("total_weight", "share", "attention to all keys of a query together", digits=7),
        Quantity("projection_weights", "weights", "weights of the projections of attention", "weights", digits=0),
        Quantity("product_flops", "FLOPs", "FLOPs of the products of attention with all keys", "FLOPs of products", digits=0),
        Quantity("score_bytes", "bytes", "bytes of all scores of a layer in float32", "bytes of scores", digits=0),
        # Embeddings (exact).
        Quantity("row_gradient", "1", "length of the gradient of a row of the embedding", "|gradient| of a row", digits=5),
        Quantity("kept_value", "1", "channel of an untouched row after all steps", "untouched channel", digits=4),
        Quantity(
            "later_movement",
            "ratio",
            "movement of a row after the only step at which it has a gradient, over that of this step",
            "movement afterwards / in the step",
            "kingma2015",
            digits=2,
        ),
        Quantity("entry_variance", "1", "variance of the entries of an embedding", "variance", digits=6),
        of_weights("row_norm", "1", "mean length of a row", "|row|"),
        Quantity("logit_deviation", "1", "standard deviation of logits of normalised vectors", "σ of logits"),
        Quantity("loss_excess", "nats", "loss of a model before its first step, less ln V", "loss - ln V (nats)"),
        Quantity("directions", "directions", "fewest directions that hold 99.9 % of the squared length of all rows", digits=0),
        Quantity("wavelength", "tokens", "tokens of one period of a pair of sine and cosine", digits=1),
        Quantity("mean_cosine", "1", "mean |cos| between rows of the embedding and sinusoidal positions", "mean |cos|"),
        # Norms (exact).
        Quantity("vector_deviation", "1", "standard deviation of the entries of real tokens after a norm", "σ of real tokens"),
        Quantity("largest_entry", "1", "largest entry of a batch of one token after a norm", "batch of one token"),
        # Released models (exact).
        Quantity("context", "tokens", "tokens that a released model takes", digits=0),
        Quantity("parameter_count", "parameters", "parameters of a model, or of one part of it", digits=0),
        Quantity(
            "active_parameters",
            "parameters",
            "parameters that are used for each token; an input embedding counts only where it is also the unembedding",
            source="openai2025",
            digits=0,
        ),
        Quantity("embedding_memory", "MiB", "memory of the token embedding", digits=1),
        Quantity("cache_per_token", "KiB", "key-value cache of one token", "cache (KiB / token)", digits=1),
        Quantity("text_cache", "GiB", "key-value cache of one text of some length", "cache of a text (GiB)"),
        Quantity("score_memory", "GiB", "scores of all heads of one layer in float32, if all of them were stored"),
        Quantity("prefill_flops", "FLOPs", "FLOPs of the products of a pass over a text", "FLOPs of a text", digits=0),
        Quantity("token_flops", "FLOPs", "FLOPs of the products of one more token", "FLOPs of a token", digits=0),
        Quantity("attention_share", "share", "share of the FLOPs of a text that are products of queries, keys and values"),
        Quantity("cache_memory", "GiB", "key-value cache of one text that fills the context", "cache at the context (GiB)"),
        Quantity(
            "cache_share",
            "share",
            "key-value cache over that of as many key and value heads as query heads",
            "cache / multi-head cache",
            "deepseekai2024",
        ),
        # Tokenizers (exact).
        Quantity("tokens", "tokens", "tokens of a text", digits=0),
        Quantity("first_token_bytes", "bytes", "bytes of the first token of a text", digits=0),
        Quantity("relative_tokens", "ratio", "tokens over those of the reference language", source="petrov2023", digits=2),
        Quantity("premium", "ratio", "tokens over those of the reference language", source="petrov2023", digits=2),
        Quantity("premium_characters", "ratio", "characters, as a factor of the premium", "characters", digits=2),
        Quantity("premium_script", "ratio", "bytes a character, as a factor of the premium", "script", digits=2),
        Quantity("premium_words", "ratio", "words a byte, as a factor of the premium", "pre-tokenizer", digits=2),
        Quantity("premium_merges", "ratio", "tokens a word, as a factor of the premium", "merges", digits=2),
        Quantity("premium_spaces", "ratio", "tokens over those that are not white space, as a factor", "white space", digits=2),
        Quantity("largest_premium", "ratio", "largest of the relative tokens", source="petrov2023", digits=2),
        Quantity("smallest_premium", "ratio", "smallest of the relative tokens", source="petrov2023", digits=2),
        Quantity("premium_ratio", "ratio", "largest over smallest relative tokens", "most / least", digits=2),
        Quantity("gini", "1", "Gini's coefficient of the relative tokens", "Gini's coefficient"),
        Quantity("characters_per_token", "characters", "characters of a text over its tokens", "characters / token", digits=2),
        Quantity("effective_context", "tokens", "tokens of the reference language that say what a window holds", digits=0),
        Quantity("coverage", "share", "share of a text that its most frequent words or characters are", digits=3),
        Quantity("held_out_coverage", "share", "the same share of every other line, by frequencies of the rest", digits=3),
        Quantity("distinct_units", "1", "distinct words or characters of a text", "distinct", digits=0),
        Quantity("running_units", "1", "words or characters of a text", "running", digits=0),
        Quantity("used_share", "share", "share of the ids that occur in a text", "ids used"),
        Quantity("unigram_bits", "bits", "bits a byte of the training text under independent tokens", "unigram bits / byte"),
        Quantity("encoding_speed", "MB/s", "10^6 bytes of text encoded a second, on one thread", digits=2),
    )
)


def quantity(name: str, unit: str = "1") -> Quantity:
    """A quantity by its name; one that a study plugged in has its name and this unit only."""
    return QUANTITIES.get(name) or Quantity(name, unit, "")
