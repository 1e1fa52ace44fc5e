"""What every record of settings is made of."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def key(default: Any, description: str, example: Any, **rules: Any) -> Any:
    """A key of the inventory: what it is when nobody says, what it means with its unit, and a value one might write."""
    return Field(default, description=description, examples=[example], **rules)


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)
