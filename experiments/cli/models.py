"""The commands about a model, trained or published: text that it writes, and its files for other programs."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from leadline.experiments.cli.console import AsJson, begin_jax, complain, print_json
from leadline.experiments.runtime.errors import UserError

if TYPE_CHECKING:
    from leadline.experiments.training.generation import Piece

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="The folder of a run, the folder or GGUF file of a published model, hub:NAME or package:NAME."
    ),
]


def generate(
    model: Model,
    prompt: Annotated[list[str] | None, typer.Option("--prompt", help="The text to go on from; may be given again.")] = None,
    prompts: Annotated[Path | None, typer.Option("--prompts", metavar="FILE", help="More prompts, one a line.")] = None,
    tokens: Annotated[int, typer.Option("--tokens", min=1, help="Greatest number of tokens to write.")] = 256,
    temperature: Annotated[float, typer.Option("--temperature", min=0, help="Of the softmax; 0: the likeliest token.")] = 1.0,
    top_k: Annotated[int | None, typer.Option("--top-k", min=1, help="Draw from the K likeliest tokens alone.")] = None,
    top_p: Annotated[
        float, typer.Option("--top-p", min=0, max=1, help="Draw from the fewest tokens whose probabilities sum to P.")
    ] = 1.0,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Of what is drawn.")] = 0,
    window: Annotated[
        int | None, typer.Option("--window", min=1, help="Number of newest tokens in the cache; absent: all.")
    ] = None,
    initial_tokens: Annotated[
        int, typer.Option("--initial-tokens", min=0, help="Number of first tokens that stay in the cache too (StreamingLLM).")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Write text with a trained or published model.

    Several prompts are one batch. Text is shown as it is written, that of the first prompt first.
    """
    begin_jax()
    from leadline.experiments.runs.loaded import open_model
    from leadline.experiments.training.generation import Request, generated
    from leadline.model.generate import Policy

    all_prompts = (*(prompt or ()), *(_lines(prompts) if prompts is not None else ()))
    if not all_prompts:
        raise UserError("there is no prompt: give --prompt TEXT, or --prompts FILE with one a line")
    try:
        policy = Policy(window, initial_tokens)
    except ValueError as error:
        raise UserError(f"--window, --initial-tokens: {error}") from error
    request = Request(all_prompts, tokens, temperature, top_k, top_p, seed, policy)
    pieces = generated(open_model(model), request)
    if not as_json:
        for text in _in_order(all_prompts, pieces):
            typer.echo(text, nl=False)
        return
    texts = [
        {
            "prompt": text,
            "text": "".join(piece.text for piece in written),
            "ids": [token for piece in written for token in piece.ids],
        }
        for text, written in zip(all_prompts, zip(*pieces, strict=True), strict=True)
    ]
    print_json({"texts": texts, "seed": seed})


def _lines(path: Path) -> list[str]:
    """The lines of a file that are not empty."""
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line]


def _in_order(prompts: Sequence[str], pieces: Iterable[Sequence["Piece"]]) -> Iterator[str]:
    """What is printed: one text after the other, each as far as it is written; several with their prompts above."""
    waiting, shown = [f"{n}: {prompt}\n\n" if len(prompts) > 1 else "" for n, prompt in enumerate(prompts, start=1)], 0
    for batch in pieces:
        waiting = [text + piece.text for text, piece in zip(waiting, batch, strict=True)]
        while shown < len(prompts):
            yield waiting[shown]
            waiting[shown] = ""
            if not batch[shown].last:
                break
            shown += 1
            yield "\n\n" if shown < len(prompts) else "\n"


def export(
    model: Model,
    into: Annotated[Path, typer.Option("--into", metavar="FOLDER", help="A new folder for the files.")],
    dtype: Annotated[
        Literal["float32", "bfloat16"] | None,
        typer.Option("--dtype", help="Of the tensors; absent: float32 for a run, as in the files for a published model."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a model as a folder that transformers loads."""
    from leadline.experiments.runs.export import export as export_model

    exported = export_model(model, into, dtype)
    if as_json:
        print_json({"folder": str(into), **exported._asdict()})
        return
    typer.echo("\n".join(str(into / name) for name in exported.files))
    if exported.without_tokenizer is not None:
        complain(f"no tokenizer is written: {exported.without_tokenizer}")
