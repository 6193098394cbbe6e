"""Studies that train nothing: what they compute, exactly or by counting."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from leadline.experiments.config.attention import KeyBias
from leadline.experiments.config.base import Factor, Frozen, Positive
from leadline.experiments.config.data import Files, Texts
from leadline.experiments.config.measure import Measure
from leadline.experiments.config.model import Channels, ModelConfig
from leadline.experiments.config.position import LearnedPositions, Rope

HeadDim = Annotated[int, Field(ge=4, multiple_of=2)]


class BaseBound(Frozen):
    """The RoPE bases with B_m >= 0 (Men et al. 2024) at distances m = 0, every, 2 · every, … below each length.

    With `inclusive` the length itself is such a distance.
    """

    kind: Literal["base_bound"] = "base_bound"
    head_dims: tuple[HeadDim, ...] = Field(default=(128,), min_length=1)  # channels that RoPE rotates
    lengths: tuple[Positive, ...] = Field(min_length=1)  # tokens of a context
    inclusive: bool = False  # the length itself is tested too
    every: Positive = 1  # distances between those that are tested


class Precision(Frozen):
    """How far the rotation angles of RoPE are off in each arithmetic, by position."""

    kind: Literal["precision"] = "precision"
    head_dim: int = Field(default=128, ge=2, multiple_of=2)  # channels that RoPE rotates
    base: float = Field(default=10000.0, gt=0)  # of RoPE
    lengths: tuple[Positive, ...] = Field(min_length=1)  # tokens of a text


class AttentionArithmetic(Frozen):
    """Exact statements about attention: a job for each subject, computed by the functions that models run."""

    kind: Literal["attention_arithmetic"] = "attention_arithmetic"
    # channels of which every pair of vectors of -1 and 1 is a query and a key
    enumerated: tuple[Annotated[int, Field(ge=1, le=10)], ...] = Field(default=(2, 4, 8), min_length=1)
    # numbers whose roots divide their products, beside that of the channels
    divisors: tuple[Positive, ...] = (11,)
    # channels of a head, for the saturation of softmax
    head_dims: tuple[Positive, ...] = Field(default=(8, 64, 128, 512), min_length=1)
    keys: int = Field(default=64, ge=2)  # of one query
    draws: Positive = 4096  # of a normal query and its keys, for the saturation of softmax
    repeated: int = Field(default=1024, ge=2)  # times that a text has its only token
    permuted: int = Field(default=5, ge=2, le=6)  # tokens of a text of which every order is tried
    head_dim: HeadDim = 128  # channels that RoPE rotates
    base: float = Field(default=10000.0, gt=0)  # of RoPE
    shifts: tuple[Positive, ...] = Field(default=(1, 1000, 1000000), min_length=1)  # tokens by which both positions move
    # [window, layers] of each stack of windowed attention
    windows: tuple[tuple[Positive, Positive], ...] = Field(default=((8, 4), (4096, 32)), min_length=1)
    width: Positive = 4096  # of the layer whose heads are counted
    heads: tuple[Positive, ...] = Field(default=(1, 8, 32, 128), min_length=1)  # that share the width
    context: Positive = 4096  # tokens of its scores

    def problems(self) -> Iterator[str]:
        if uneven := [heads for heads in self.heads if self.width % (2 * heads)]:
            yield f"heads = {uneven}: each must divide half of the width {self.width}"


class Embeddings(Frozen):
    """Exact statements about the rows of embeddings: a job for each subject, computed by the functions that models run."""

    kind: Literal["embeddings"] = "embeddings"
    width: Annotated[int, Field(ge=8, multiple_of=8)] = 512  # channels of a row, and of the models
    vocabulary: int = Field(default=1000, ge=4)  # rows
    tokens: int = Field(default=64, ge=2)  # of the text whose rows have gradients
    steps: Positive = 1000  # of AdamW
    learning_rate: float = Field(default=1e-2, gt=0)  # of AdamW
    weight_decay: float = Field(default=0.1, gt=0)  # of AdamW
    beta1: float = Field(default=0.9, ge=0, lt=1)  # of AdamW
    beta2: float = Field(default=0.95, ge=0, lt=1)  # of AdamW
    positions: Positive = 1024  # sinusoids
    shift: Positive = 64  # tokens by which they are moved


class Norms(Frozen):
    """What the output of a text depends on after LayerNorm, RMSNorm and BatchNorm, for normal vectors."""

    kind: Literal["norms"] = "norms"
    width: Positive = 64  # channels of a vector
    texts: int = Field(default=8, ge=2)  # of a batch
    tokens: int = Field(default=32, ge=2)  # of each text


class TokenizerComparison(Frozen):
    """Tokenizers that are trained on every n-th document of the standard library and counted on as many others."""

    vocabularies: tuple[Positive, ...] = Field(min_length=1)  # ids, specials included
    every: int = Field(default=10, ge=2)  # n


class Tokens(Frozen):
    """Parallel texts through tokenizers, each written as `leadline tokens --tokenizer` has it."""

    kind: Literal["tokens"] = "tokens"
    # the name of an arm, and its tokenizer as `leadline tokens --tokenizer` has it
    tokenizers: dict[str, str] = Field(min_length=1)
    texts: Texts = "embedded"  # "embedded", or files and folders, one file per language
    reference: str = "eng"  # the language that others are measured against
    window: Positive = 8192  # tokens of a context
    speed_documents: int = Field(default=50, ge=0)  # of the standard library, a megabyte, to time rank vocabularies on
    ranks: str | None = None  # the folder of NAME.tiktoken and NAME.json; absent: tiktoken downloads them
    published: tuple[str, ...] = ()  # arms whose tokenizer is ARM/tokenizer.json
    published_in: str | None = None  # the folder of those; absent: they are left out
    premiums: bool = False  # whether relative tokens are divided into the steps of each tokenizer
    wordpiece: TokenizerComparison | None = None  # WordPiece by each criterion; absent: not compared
    bpe: TokenizerComparison | None = None  # byte-level BPE with and without pre-tokenization; absent: not compared


class CoveredText(Frozen):
    """A text of which the share is counted that its most frequent words or characters cover."""

    label: str = Field(min_length=1)  # what readers see
    unit: Literal["words", "characters"]  # words in lower case, or characters of Chinese writing
    files: Files | None = None  # "stdlib", or files and folders; absent: the text is left out


class Coverage(Frozen):
    """Shares of running words or characters that the most frequent ones of a text cover, by how many these are."""

    kind: Literal["coverage"] = "coverage"
    sizes: tuple[Positive, ...] = Field(min_length=1)  # how many of the most frequent ones
    texts: dict[str, CoveredText] = Field(min_length=1)  # by the name of their arm


class Multilingual(Frozen):
    """BPE of parallel texts whose shares in training fall by `halving` from one language to the next, to each exponent."""

    kind: Literal["multilingual"] = "multilingual"
    vocabularies: tuple[Positive, ...] = Field(min_length=1)  # ids, specials included
    exponents: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field(min_length=1)  # 1: shares as they are, 0: even
    halving: Factor = 2.0  # what the share of a language is divided by from one to the next
    pattern: str = "gpt4"  # cuts text into words: the name of a pattern, or a regular expression
    texts: Texts = "embedded"  # "embedded", or files and folders, one file per language
    reference: str = "eng"  # the language that others are measured against


class PublishedStudy(Frozen):
    """A published model, measured: a record for each table of `measure`, and for each length and extension of perplexity."""

    kind: Literal["published"] = "published"
    # a folder as the Hub lays it out, a GGUF file, "hub:NAME", or "package:NAME" of an installed package
    model: str
    corpus: Files = "stdlib"  # "stdlib" (its held-out part), or files, folders and data sets of the Hub, all of which is read
    bos: Literal["fixed", "absent"] = "absent"  # whether BOS begins a window
    compute_dtype: Literal["float32", "bfloat16"] = "float32"  # of activations and matrices
    measure: Measure  # what is measured
    base_bound: bool = True  # whether the bound of its RoPE base is computed too


class LatentAttention(Frozen):
    """Multi-head latent attention, where one vector makes keys and values (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1)."""

    query_rank: Channels  # of the vector that queries are made from
    rank: Channels  # of the vector that keys and values are made from
    rotated: HeadDim  # channels that RoPE rotates, beside those of a head: of each query, and of one key for all heads


# Positions whose weights are counted.
COUNTED = ("rope", "alibi", "sinusoidal", "learned", "nope")


class Shape(Frozen):
    """The sizes of a language model, as its paper or its config.json states them."""

    vocabulary: Channels  # ids, those that pad the embedding included
    context: Positive  # tokens
    trained: Positive | None = None  # tokens that its RoPE base was trained at, before an extension; absent: the context
    model: ModelConfig  # its layers
    latent: LatentAttention | None = None  # absent: keys and values of their own for each head of `model`
    shared_experts: int = Field(default=0, ge=0)  # experts that every token goes through, beside those that are chosen
    dense_layers: int = Field(default=0, ge=0)  # first layers, whose feed-forward has no experts
    dense_hidden: Channels | None = None  # channels of their feed-forward; absent: as many as an expert has
    encoder: bool = False  # every token sees every other one, so that nothing is cached
    token_types: int = Field(default=0, ge=0)  # vectors that are added to the embedding, one for each kind of segment
    pooler: bool = False  # a product with a bias after the first token

    def problems(self) -> Iterator[str]:
        model = self.model
        for position in model.positions:
            if position.kind not in COUNTED:
                yield f"weights of position {position.kind!r} are not counted; those of {', '.join(COUNTED)} are"
        if model.gate.kind != "none" or model.scalable_softmax or isinstance(model.sink, KeyBias):
            yield "weights of a gate, of a key bias and of a scalable softmax are not counted"
        if self.latent is not None and (model.biases or model.kv_heads is not None or model.qk_norm):
            yield "latent attention has no biases, no kv_heads and no qk_norm here"
        if (self.shared_experts or self.dense_layers) and model.experts is None:
            yield "shared_experts and dense_layers belong to a model with experts"
        if self.dense_layers > model.layers:
            yield f"dense_layers = {self.dense_layers} is more than the {model.layers} layers"

    @property
    def table_positions(self) -> int:
        """Vectors of a learned table of positions."""
        position = self.model.position
        return (position.capacity or self.context) if isinstance(position, LearnedPositions) else 0

    @property
    def base_context(self) -> int:
        """Tokens below which its RoPE base is tested: those that it was trained at, or a window that every layer has."""
        trained, window = self.trained or self.context, self.model.window
        return min(trained, window) if window is not None and all(self.model.windowed) else trained

    @property
    def rotated(self) -> int:
        """Channels of a head that RoPE rotates; 0 without RoPE."""
        position = self.model.position
        if not isinstance(position, Rope):
            return 0
        return position.spectrum(self.model.attention_heads) if self.latent is None else self.latent.rotated


class ReleasedModel(Shape):
    """A released model, or a variant of one."""

    label: str = Field(min_length=1)  # what readers see


class Released(Frozen):
    """Parameters, key-value caches and RoPE bases of released models, from their shapes."""

    kind: Literal["released"] = "released"
    bits: tuple[Positive, ...] = Field(default=(32, 16), min_length=1)  # of a number, for which memory is stated
    lengths: tuple[Positive, ...] = (4096, 32768, 131072)  # tokens of a text; of each model those up to its context
    models: dict[str, ReleasedModel] = Field(min_length=1)  # by the name of their arm

    def problems(self) -> Iterator[str]:
        names: dict[str, str] = {}
        for name, model in self.models.items():
            first = names.setdefault(model.model_dump_json(exclude={"label"}), name)
            if first != name:
                yield f"models.{name} has the shape of models.{first}: leave one of them out"


Exact = Annotated[
    BaseBound
    | Precision
    | AttentionArithmetic
    | Embeddings
    | Norms
    | Tokens
    | Coverage
    | Multilingual
    | PublishedStudy
    | Released,
    Field(discriminator="kind"),
]
