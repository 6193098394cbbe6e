"""The groups of models that runs of a results folder are at work on, as the file of each process says."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from leadline.experiments.runtime.worker_files import seems_dead, workers_of

# Of a group that several processes tell of, the first state counts: a run lists as waiting what another one trains, and what a
# worker left that has died a later one may have finished.
State = Literal["finished", "running", "failed", "waiting", "stopped", "stale"]
STATES: tuple[State, ...] = get_args(State)
ARMS = 3  # that a row names


class Told(BaseModel):
    """A group, as the file of a process tells of it."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="allow")

    id: str
    study: str
    arms: list[str]
    models: int
    state: State
    step: int
    steps: int
    loss: float | None = None
    tokens_per_second: float | None = None
    seconds_left: Annotated[float, Field(lt=timedelta.max.total_seconds())] | None = None
    error: str = ""


def groups_at(results: Path) -> list[dict[str, Any]]:
    """The groups of all processes whose files are there: those at work, and those that ended and that no run has cleared yet.

    Returns:
        `study`, `arms`, `models`, `state`, `host`, `pid`, `step`, `steps`, `loss` [nats], `tokens_per_second`, `seconds_left`
        and `error` of each. A group is stopped whose process kept it when it was asked to end, and stale whose process is gone
        before it was recorded: the next run goes on with both.
    """
    groups: dict[str, dict[str, Any]] = {}
    for name, content in workers_of(results).items():
        dead = seems_dead(results, name, content)
        for told in groups_of(content):
            state = "stale" if dead and told["state"] in ("running", "waiting") else told["state"]
            group = told | {"state": state, "host": content["host"], "pid": content["pid"]}
            before = groups.setdefault(group.pop("id"), group)
            if STATES.index(state) < STATES.index(before["state"]):
                groups[told["id"]] = group
    return list(groups.values())


def groups_of(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the groups that the file of a process tells of, without those that are damaged."""
    for group in content["groups"]:
        with suppress(ValidationError):
            yield Told.model_validate(group).model_dump()


def row(group: dict[str, Any]) -> dict[str, str]:
    """A group as a row of a table."""
    arms = group["arms"]
    left, loss, rate = (group[key] for key in ("seconds_left", "loss", "tokens_per_second"))
    return {
        "study": group["study"],
        "arms": ", ".join([*arms[:ARMS], *([f"{len(arms) - ARMS} more"] if len(arms) > ARMS else [])]),
        "models": str(group["models"]),
        "state": f"running on {group['host']}" if group["state"] == "running" else group["state"],
        "step": f"{group['step']:,} of {group['steps']:,}",
        "loss (nats)": "" if loss is None else f"{loss:.4f}",
        "tokens/s": "" if rate is None else f"{rate:,.0f}",
        "left": "" if left is None else str(timedelta(seconds=round(left))),
        "error": group["error"],
    }


def going(shown: dict[str, str]) -> bool:
    """Whether the group of a row is not at its end."""
    return shown["state"].startswith(("running", "waiting"))
