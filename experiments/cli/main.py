"""The command line: arguments in, one table or one JSON object out. What needs JAX is imported by the command that needs it."""

import errno
import importlib.metadata
import io
import logging
import os
import sys
import tempfile
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from leadline.experiments.cli.console import complain
from leadline.experiments.cli.measure import measure
from leadline.experiments.cli.memory import memory
from leadline.experiments.cli.models import export, generate
from leadline.experiments.cli.results import claims, compare, lock, publish, report, show, status
from leadline.experiments.cli.run import run
from leadline.experiments.cli.tokens import app as tokenizer_app
from leadline.experiments.cli.tokens import tokens
from leadline.experiments.cli.tools import bench, bound, doctor, schema
from leadline.experiments.runtime.errors import Apart, UserError
from leadline.experiments.runtime.signals import Interrupted

MISTAKE, FAILURE, STOPPED = 2, 1, 130


class Verbs(TyperGroup):
    """Commands in the order of their use; those of tokenizers, a group of their own, are listed after `tokens`."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = [name for name in super().list_commands(ctx) if name != "tokenizer"]
        place = 1 + names.index("tokens")
        return [*names[:place], "tokenizer", *names[place:]]


app = typer.Typer(
    name="leadline",
    cls=Verbs,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool | None) -> None:
    if wanted:
        typer.echo(f"leadline {importlib.metadata.version('leadline')}")
        raise typer.Exit


@app.callback()
def leadline(
    version: Annotated[
        bool | None, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = None,
) -> None:
    """Train small language models; measure attention sinks and length extrapolation, of published models too."""


ABOUT_RESULTS = (run, status, show, measure, compare, report, lock, claims, publish)
ABOUT_MODELS = (generate, export, bound, memory, tokens, bench, schema, doctor)
for command in ABOUT_RESULTS + ABOUT_MODELS:
    app.command()(command)
app.add_typer(tokenizer_app, name="tokenizer")


def _tell_unraisable(error: Any) -> None:
    """Where a disk refuses, Orbax ends before its writes do, and each of these would print a traceback."""
    if str(error.exc_value) != "Event loop is closed":
        sys.__unraisablehook__(error)


def _of_file(error: OSError) -> str:
    """The reason of a system error, after the file that it names. The error of a full disk may name none."""
    name = error.filename or ("standard output or a file" if error.errno == errno.ENOSPC else None)
    where = os.fsdecode(name) if isinstance(name, bytes) else name
    return ": ".join(str(part) for part in (where, error.strerror or error) if part)


def main() -> None:
    """Errors are lines on standard error: exit 2 for the user's mistakes, 1 for failures, 130 when stopped."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error: the name of a file may be no text
    logging.getLogger("absl").setLevel(logging.CRITICAL)  # what Orbax logs as an error it raises too
    sys.unraisablehook = _tell_unraisable
    try:
        status = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except typer.TyperException as error:
        complain(error.format_message())
        sys.exit(MISTAKE)
    except Apart as error:
        complain(str(error))
        sys.stderr.flush()
        os._exit(MISTAKE)  # JAX would wait for processes that are gone, and abort
    except UserError as error:
        complain(str(error))
        sys.exit(MISTAKE)
    except Interrupted as stopped:
        complain(f"{stopped}; to go on, run the same command again")
        sys.exit(STOPPED)
    except (KeyboardInterrupt, typer.Abort):
        complain("stopped")
        sys.exit(STOPPED)
    except MemoryError as error:
        complain(
            f"{str(error) or 'out of memory'}; lower train.batch, model.width or measure.windows, or train fewer models at "
            "once with --models N"
        )
        sys.exit(MISTAKE)
    except OSError as error:
        complain(_of_file(error))
        sys.exit(FAILURE)
    except Exception as error:  # the last one who can say it in one line
        with tempfile.NamedTemporaryFile("w", prefix="leadline-", suffix=".log", encoding="utf-8", delete=False) as file:
            traceback.print_exc(file=file)
        complain(" ".join(f"{type(error).__name__}: {error} (this is a defect; {file.name} has the traceback)".split()))
        sys.exit(FAILURE)
    sys.exit(status or 0)
