"""What devices exchange in a compiled program."""

import re
from typing import Any

COLLECTIVE = re.compile(r"= (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\(")


def exchanged(program: Any) -> list[tuple[str, str]]:
    """What travels in a compiled program, several arrays at once in brackets, and by which kind of exchange."""
    return COLLECTIVE.findall(program.as_text())
