"""The command that writes text with a trained model."""

from pathlib import Path
from typing import Annotated

import typer

from leadline.experiments.cli.console import AsJson, print_json

Folder = Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="The folder of a run: results/STUDY/ARM-HASH/sSEED.")]


def generate(
    checkpoint: Folder,
    prompt: Annotated[str, typer.Option("--prompt", help="The text to go on from.")],
    tokens: Annotated[int, typer.Option("--tokens", min=1, help="Greatest number of tokens to write.")] = 256,
    temperature: Annotated[float, typer.Option("--temperature", min=0, help="Of the softmax; 0: the likeliest token.")] = 1.0,
    top_k: Annotated[int | None, typer.Option("--top-k", min=1, help="Draw from the K likeliest tokens alone.")] = None,
    top_p: Annotated[
        float, typer.Option("--top-p", max=1, help="Draw from the fewest tokens whose probabilities sum to P.")
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
    """Write text with a trained model, by any policy of what it remembers."""
    from leadline.experiments.runtime.errors import UserError
    from leadline.experiments.training.generation import Request, generated, open_saved
    from leadline.model.generate import Policy

    try:
        policy = Policy(window, initial_tokens)
    except ValueError as error:
        raise UserError(f"--window, --initial-tokens: {error}") from error
    saved = open_saved(checkpoint)
    request = Request(prompt, tokens, temperature, top_k, top_p, seed, policy)
    pieces = []
    for piece in generated(saved, request):
        pieces.append(piece)
        if not as_json:
            typer.echo(piece.text, nl=False)
    if not as_json:
        typer.echo()
        return
    ids = [token for piece in pieces for token in piece.ids]
    print_json(
        {"prompt": prompt, "text": "".join(piece.text for piece in pieces), "ids": ids, "step": saved.step, "seed": seed}
    )
