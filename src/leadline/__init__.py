"""Position encodings, softmax biases and output gates: measured for attention sinks and length extrapolation, in JAX.

Queries and keys are rotated and attended in one call each. A trained run is opened by its folder and asked for its sinks, and a
published model is loaded (`load`) and asked the same.

    >>> import jax, leadline
    >>> x = jax.random.normal(jax.random.key(0), (1, 256, 8, 64))  # batch, tokens, heads, channels
    >>> q = k = leadline.rope(x, base=10_000.0, scaling="yarn", factor=2.0, trained_length=128)
    >>> output, statistics = leadline.attention(q, k, x, sink_logit=0.0, window=128, initial_tokens=4)
    >>> statistics.first.shape  # attention to the first token: batch, heads, queries
    (1, 8, 256)
    >>> round(leadline.base_bound(head_dim=64, length=1024))  # the smallest RoPE base for 1024 tokens
    7753
    >>> run = leadline.open("results/sinks", arm="softmax", seed=50)
    >>> ids = run.held_out()[:, :-1]
    >>> sinks = run.sinks(ids)  # sinks.first_token_mass[layer, head]
    >>> attention = run.attention_map(ids[0], layer=0, head=0)  # query, key
    >>> table = leadline.records("results", as_="pandas")

The subpackages are folders at the top of the repository: `leadline.model` (arrays to arrays), `leadline.tokenization` (text to
ids and back) and `leadline.experiments` (configurations, training, measurements, results). Importing this package imports none
of them: each name below is imported when it is first used.
"""

TYPE_CHECKING = False  # True for type checkers; to import `typing` takes longer than all else here

if TYPE_CHECKING:
    __version__: str
    from leadline.experiments.runs.forward import Sinks
    from leadline.experiments.runs.loaded import load
    from leadline.experiments.runs.model import Model, apply
    from leadline.experiments.runs.opened import Run
    from leadline.experiments.runs.opened import open_run as open  # noqa: A004  # as in gzip.open
    from leadline.experiments.runs.table import records
    from leadline.experiments.runtime.errors import UserError
    from leadline.functions import attention, base_bound, rope, save_tokenizer, tokenizer, train_tokenizer
    from leadline.model.generate import Policy
    from leadline.model.positions.alibi import alibi_slopes
else:

    def __getattr__(name: str) -> object:
        from importlib import import_module, metadata

        if name == "__version__":
            return metadata.version("leadline")
        if name not in NAMES:
            raise AttributeError(f"module 'leadline' has no attribute {name!r}; it has {', '.join(NAMES)}")
        module, attribute = NAMES[name]
        return getattr(import_module(module), attribute)


# Module and name of everything that this package gives; the imports above say the same to type checkers.
NAMES = {
    "Model": ("leadline.experiments.runs.model", "Model"),
    "Policy": ("leadline.model.generate", "Policy"),
    "Run": ("leadline.experiments.runs.opened", "Run"),
    "Sinks": ("leadline.experiments.runs.forward", "Sinks"),
    "UserError": ("leadline.experiments.runtime.errors", "UserError"),
    "alibi_slopes": ("leadline.model.positions.alibi", "alibi_slopes"),
    "apply": ("leadline.experiments.runs.model", "apply"),
    "attention": ("leadline.functions", "attention"),
    "base_bound": ("leadline.functions", "base_bound"),
    "load": ("leadline.experiments.runs.loaded", "load"),
    "open": ("leadline.experiments.runs.opened", "open_run"),
    "records": ("leadline.experiments.runs.table", "records"),
    "rope": ("leadline.functions", "rope"),
    "save_tokenizer": ("leadline.functions", "save_tokenizer"),
    "tokenizer": ("leadline.functions", "tokenizer"),
    "train_tokenizer": ("leadline.functions", "train_tokenizer"),
}
__all__ = [
    "Model",
    "Policy",
    "Run",
    "Sinks",
    "UserError",
    "alibi_slopes",
    "apply",
    "attention",
    "base_bound",
    "load",
    "open",
    "records",
    "rope",
    "save_tokenizer",
    "tokenizer",
    "train_tokenizer",
]


def __dir__() -> list[str]:
    return sorted([*globals(), *NAMES])
