"""The commands about tokenizers: what they cost, how they are trained, and each step of that."""

from pathlib import Path
from typing import Annotated

import typer

from leadline.experiments.cli.console import AsJson, finite, print_json, refuse_idle, show_rows

app = typer.Typer(rich_markup_mode=None)

Texts = Annotated[list[Path] | None, typer.Argument(metavar="[TEXT]...", help="Files and folders.")]
REFERENCE, WINDOW = "eng", 8192
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Setting of the tokenizer, such as pattern=gpt2; repeatable."),
]


def tokens(
    texts: Annotated[
        list[Path] | None, typer.Argument(metavar="[TEXT]...", help="One file per language; default: twelve languages.")
    ] = None,
    tokenizer: Annotated[
        list[str] | None,
        typer.Option("--tokenizer", metavar="NAME", help="byte, tiktoken:NAME, a file or a folder; repeatable."),
    ] = None,
    reference: Annotated[
        str | None, typer.Option("--reference", help=f"The language that others are measured against; default: {REFERENCE}.")
    ] = None,
    window: Annotated[int | None, typer.Option("--window", min=1, help=f"Context length in tokens; default: {WINDOW}.")] = None,
    price: Annotated[
        float | None,
        typer.Option("--price", min=0, callback=finite, help="Price of a million tokens; adds a column of costs."),
    ] = None,
    ranks: Annotated[
        Path | None,
        typer.Option("--ranks", metavar="DIR", help="Folder of NAME.tiktoken and NAME.json, read in place of a download."),
    ] = None,
    probes: Annotated[bool, typer.Option("--probes", help="Show how numbers, names, space and code are cut instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Count the tokens of parallel texts by language."""
    names = tokenizer or ["byte"]
    counts = "the command without --probes"
    refuse_idle(
        ("TEXT", texts, counts, not probes),
        ("--reference", reference, counts, not probes),
        ("--window", window, counts, not probes),
        ("--price", price, counts, not probes),
        ("--ranks", ranks, "--tokenizer tiktoken:NAME", any(name.startswith("tiktoken:") for name in names)),
    )
    from leadline.experiments.data.text.tokenizers import open_tokenizer
    from leadline.experiments.measure.exact.texts import texts_of
    from leadline.experiments.measure.exact.tokens import probed, report

    opened = {name: open_tokenizer(name, ranks) for name in names}
    if probes:
        print_json({"probes": probed(opened)}) if as_json else show_rows(probed(opened))
        return
    reference = reference or REFERENCE
    rows = report(opened, texts_of(texts or "embedded", reference), reference, window or WINDOW, price)
    print_json({"texts": rows}) if as_json else show_rows(rows)


@app.callback(invoke_without_command=True)
def show_help(ctx: typer.Context) -> None:
    """Train tokenizers, and show each step."""
    # Not no_args_is_help, which exits with 2.
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command()
def train(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the tokenizer is saved.")],
    texts: Texts = None,
    kind: Annotated[str, typer.Option("--kind", help="bpe, wordpiece, unigram, word or character.")] = "bpe",
    vocabulary: Annotated[int, typer.Option("--vocabulary", help="Vocabulary size, special tokens included.")] = 8192,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Train a tokenizer on files, or on the standard library's sources, and save it as a folder."""
    from leadline.experiments.data.text.tokenizers import train_and_save

    trained = train_and_save(folder, texts or [], kind, vocabulary, settings or [])
    print_json(trained) if as_json else show_rows([trained])


@app.command()
def trace(
    texts: Texts = None,
    text: Annotated[str | None, typer.Option("--text", help="A text, in place of files.")] = None,
    tokenizer: Annotated[
        str | None, typer.Option("--tokenizer", metavar="FILE", help="A tokenizer.json: show how it encodes the --text.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="How it is trained: bpe, wordpiece or unigram; default: bpe.")
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option("--vocabulary", help="Vocabulary size at which unigram pruning stops.")
    ] = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Greatest number of steps to print.")] = 20,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show each merge (or round of pruning) of training: the pair, its count, and the corpus after it. Or each of encoding."""
    from leadline.experiments.data.text.tokenizer_steps import traced, traced_encoding

    training = "the command without --tokenizer"
    refuse_idle(
        ("TEXT", texts, "the command without --text and --tokenizer", text is None and tokenizer is None),
        ("--kind", kind, training, tokenizer is None),
        ("--set", settings, training, tokenizer is None),
        ("--vocabulary", vocabulary, "--kind unigram", kind == "unigram"),
        ("--tokenizer", tokenizer, "--text", text is not None),
    )
    if tokenizer is not None and text is not None:
        rows = traced_encoding(tokenizer, text, steps)
    else:
        rows = traced(texts or [], text, kind or "bpe", vocabulary, steps, settings or [])
    print_json({"steps": rows}) if as_json else show_rows(rows)
