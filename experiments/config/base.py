"""What every class of a configuration shares.

This folder says what a TOML file may say: every key, its range and its default. Nothing else in the project knows a default.
Mechanisms are tagged values (`kind`).
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Part = Annotated[float, Field(gt=0, le=1)]
Factor = Annotated[float, Field(ge=1)]  # by which a context grows


class Frozen(BaseModel):
    """Refuses keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)
