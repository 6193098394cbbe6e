"""The command that counts the memory and FLOPs of a model without building it."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from leadline.experiments.cli.console import AsJson, begin_jax, print_json, show_rows
from leadline.experiments.cli.measure import positive_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MODEL = "A study or suite in TOML; a name in configs/released.toml; a folder or GGUF file; hub:NAME; package:NAME."
Dtype = Literal["float32", "bfloat16", "float16", "float8", "int8", "int4"]
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def memory(
    model: Annotated[str, typer.Argument(metavar="CONFIG|MODEL", help=MODEL)],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Settings of a study to change, such as model.kv_heads=1."),
    ] = None,
    context: Annotated[
        list[str] | None,
        typer.Option("--context", metavar="N,N,…", help="Context lengths in tokens; repeatable; default: that of the model."),
    ] = None,
    arm: Annotated[
        list[str] | None, typer.Option("--arm", metavar="NAME", help="Only this arm of the study; repeatable.")
    ] = None,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Batch size.")] = 1,
    dtype: Annotated[Dtype, typer.Option("--dtype", help="Type of weights and cache.")] = "float32",
    layers: Annotated[bool, typer.Option("--layers", help="Show the cache layer by layer, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Count parameters, cache, scores and FLOPs of a model.

    No weight is read or made, and no corpus is read.
    """
    contexts = tuple(dict.fromkeys(tokens for text in context or [] for tokens in positive_numbers("--context", text)))
    begin_jax()
    import jax

    from leadline.experiments.measure.memory import memory_of
    from leadline.experiments.studies.sizes import sized_models

    device = jax.default_backend()
    models = [memory_of(sized, contexts, batch, dtype, device) for sized in sized_models(model, overrides or [], arm or [])]
    if as_json:
        print_json({"models": models, "batch": batch, "dtype": dtype, "device": device})
        return
    show_rows([_of_weights(entry, models) for entry in models])
    typer.echo()
    show_rows([row for entry in models for row in _of_contexts(entry)])
    if layers:
        typer.echo()
        show_rows([row for entry in models for row in _of_layers(entry)])
    typer.echo(
        f"\nweights and cache in {dtype}, batch {batch}; scores: of one layer in float32; held: those that leadline has at "
        f"once on {device}; FLOPs of products: of a pass over the context, and of its last token, the others being cached"
    )


def _of_weights(model: "Mapping[str, Any]", models: "Sequence[Mapping[str, Any]]") -> dict[str, Any]:
    """The row of a model, without the parts that none of the models has."""
    from leadline.experiments.records.captions import count

    parts = dict.fromkeys(part for entry in models for part, number in entry["parameters"].items() if number)
    numbers = {part: count(model["parameters"].get(part, 0)) for part in parts}
    return {
        "model": model["label"],
        "parameters": f"{model['parameter_count']:,}",
        "weights": _size(model["weight_bytes"]),
        **numbers,
    }


def _of_contexts(model: "Mapping[str, Any]") -> "Iterator[dict[str, Any]]":
    from leadline.experiments.records.captions import count

    for entry in model["contexts"]:
        yield {
            "model": model["label"],
            "context": f"{entry['context']:,}",
            "cache": _size(entry["cache_bytes"]),
            "scores": _size(entry["score_bytes"]),
            "held": _size(entry["blockwise_score_bytes"]),
            "prefill FLOPs": count(entry["prefill_flops"]),
            "token FLOPs": "–" if entry["token_flops"] is None else count(entry["token_flops"]),
        }


def _of_layers(model: "Mapping[str, Any]") -> "Iterator[dict[str, Any]]":
    """Layers that cache nothing have no row."""
    for entry in model["contexts"]:
        cached = zip(entry["cached_tokens_by_layer"], entry["cache_bytes_by_layer"], strict=False)
        for layer, (tokens, size) in enumerate(cached, start=1):
            row = {"model": model["label"], "context": f"{entry['context']:,}", "layer": layer}
            yield {**row, "cached tokens": f"{tokens:,}", "cache": _size(size)}


def _size(number: int | float) -> str:
    """Bytes in the largest binary unit of which there is one."""
    power = min(max(int(number).bit_length() - 1, 0) // 10, len(UNITS) - 1)
    return f"{number / 1024**power:.3g} {UNITS[power]}" if number else "0"
