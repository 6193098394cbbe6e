"""The commands about a model, trained or published: text that it writes, and its files for other programs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from leadline.experiments.cli.console import AsJson, begin_jax, complain, finite, print_json
from leadline.experiments.runtime.errors import UserError

if TYPE_CHECKING:
    from leadline.experiments.training.generation import Piece, Request
    from leadline.experiments.training.saved import TrainedModel

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="The folder of a run, the folder or GGUF file of a published model, hub:NAME or package:NAME."
    ),
]


# α of Vaswani et al. 2017; that of leadline.model.transduce, which needs JAX.
LENGTH_PENALTY = 0.6


def _share(value: float) -> float:
    """The value of an option. BadParameter where it is no share of a whole."""
    if not 0 < value <= 1:
        raise typer.BadParameter(f"{value} is not in the range 0 < P <= 1.")
    return value


Prompt = Annotated[
    list[str] | None, typer.Option("--prompt", help="The text to go on from, as it stands, or a source; repeatable.")
]
Prompts = Annotated[Path | None, typer.Option("--prompts", metavar="FILE", help="More prompts, one a line.")]
Tokens = Annotated[
    int | None,
    typer.Option(
        "--tokens",
        min=1,
        help="Maximum number of tokens to write; default: 256, or the longest training target of an encoder–decoder.",
    ),
]
Temperature = Annotated[
    float,
    typer.Option("--temperature", min=0, callback=finite, help="Sampling temperature; 0 always takes the most likely token."),
]
TopK = Annotated[int | None, typer.Option("--top-k", min=1, help="Draw from the K likeliest tokens alone.")]
TopP = Annotated[
    float,
    typer.Option(
        "--top-p",
        callback=_share,
        help="Draw from the fewest likeliest tokens whose probabilities sum to P, above 0 and at most 1.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Random seed: the same seed gives the same text.")]
Window = Annotated[int | None, typer.Option("--window", min=1, help="Attend to this many newest tokens; default: all.")]
InitialTokens = Annotated[
    int, typer.Option("--initial-tokens", min=0, help="Also keep this many first tokens in the cache (StreamingLLM).")
]
Beams = Annotated[int, typer.Option("--beams", min=1, help="Encoder–decoder only: beam width; 1 is greedy search.")]
LengthPenalty = Annotated[
    float,
    typer.Option(
        "--length-penalty",
        callback=finite,
        help="Encoder–decoder only: α in the score log P / ((5 + tokens) / 6)^α (Wu et al. 2016).",
    ),
]


def generate(
    model: Model,
    prompt: Prompt = None,
    prompts: Prompts = None,
    tokens: Tokens = None,
    temperature: Temperature = 1.0,
    top_k: TopK = None,
    top_p: TopP = 1.0,
    seed: Seed = 0,
    window: Window = None,
    initial_tokens: InitialTokens = 0,
    beams: Beams = 1,
    length_penalty: LengthPenalty = LENGTH_PENALTY,
    as_json: AsJson = False,
) -> None:
    """Write text with a trained or published model.

    The model goes on from the prompt itself: no chat template is applied, not even for chat models. Several prompts are one
    batch. Text is shown as it is written, that of the first prompt first.

    For the run of an encoder–decoder a prompt is a source, whose symbols have blanks between them ("7 0 3", or "twenty one" of
    spelled-out numbers), and the best target of a beam search is written; --json has all of its hypotheses.
    """
    begin_jax()
    from leadline.experiments.runs.loaded import open_model
    from leadline.experiments.training.generation import Request
    from leadline.model.encoder_decoder import EncoderDecoderConfig
    from leadline.model.generate import Policy

    all_prompts = (*(prompt or ()), *(_lines(prompts) if prompts is not None else ()))
    if not all_prompts:
        raise UserError("there is no prompt: give --prompt TEXT, or --prompts FILE with one a line")
    trained = open_model(model)
    if isinstance(trained.cfg, EncoderDecoderConfig):
        drawn = {"--temperature": temperature != 1, "--top-k": top_k, "--top-p": top_p != 1, "--seed": seed}
        drawn |= {"--window": window, "--initial-tokens": initial_tokens}
        _refuse(drawn, f"{trained.name} is an encoder–decoder, whose targets are searched and not drawn")
        _write_targets(trained, all_prompts, beams, tokens, length_penalty, as_json=as_json)
        return
    searched = {"--beams": beams != 1, "--length-penalty": length_penalty != LENGTH_PENALTY}
    _refuse(searched, f"{trained.name} has no encoder, and beams are those of an encoder–decoder")
    try:
        policy = Policy(window, initial_tokens)
    except ValueError as error:
        raise UserError(f"--window, --initial-tokens: {error}") from error
    _write_texts(trained, Request(all_prompts, tokens or 256, temperature, top_k, top_p, seed, policy), as_json=as_json)


def _refuse(given: Mapping[str, object], reason: str) -> None:
    """UserError where one of these options has a value."""
    if options := [name for name, value in given.items() if value]:
        raise UserError(f"{', '.join(options)}: {reason}; leave {'it' if len(options) == 1 else 'them'} out")


def _write_texts(trained: "TrainedModel", request: "Request", *, as_json: bool) -> None:
    """Prints the sampled text of each prompt, as it is written or as one JSON object."""
    from leadline.experiments.training.generation import generated

    pieces = generated(trained, request)
    if not as_json:
        for text in _in_order(request.prompts, pieces):
            typer.echo(text, nl=False)
        return
    texts = [
        {
            "prompt": prompt,
            "text": "".join(piece.text for piece in written),
            "ids": [token for piece in written for token in piece.ids],
        }
        for prompt, written in zip(request.prompts, zip(*pieces, strict=True), strict=True)
    ]
    print_json({"texts": texts, "seed": request.seed})


def _write_targets(
    trained: "TrainedModel", sources: Sequence[str], beams: int, tokens: int | None, length_penalty: float, *, as_json: bool
) -> None:
    """The best target of each source; as JSON, all that the beams hold."""
    from leadline.experiments.training.generation import Piece
    from leadline.experiments.training.targets import transduced

    found = transduced(trained, sources, beams=beams, tokens=tokens, length_penalty=length_penalty)
    if as_json:
        texts = [
            {"prompt": source, "text": best.text, "ids": best.ids, "beams": [asdict(target) for target in (best, *others)]}
            for source, (best, *others) in zip(sources, found, strict=True)
        ]
        print_json({"texts": texts})
        return
    for text in _in_order(sources, [[Piece(best.ids, best.text, last=True) for best, *_ in found]]):
        typer.echo(text, nl=False)


def _lines(path: Path) -> list[str]:
    """The lines of a file that are not empty. UserError for one that is absent, a folder or not UTF-8."""
    if not path.exists():
        raise UserError(f"--prompts: {path}: no such file; check the path")
    try:
        return [line for line in path.read_text(encoding="utf-8").split("\n") if line]
    except UnicodeDecodeError as error:
        raise UserError(f"--prompts: {path}: not UTF-8 at byte {error.start}; convert it to UTF-8") from error
    except OSError as error:
        raise UserError(f"--prompts: {path}: cannot be read ({error.strerror}); name a text file") from error


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
        typer.Option("--dtype", help="Type of the tensors; default: float32 for a run, the stored type for a published model."),
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
