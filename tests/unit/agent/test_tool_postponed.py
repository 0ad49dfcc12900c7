"""As a user's module with postponed annotations looks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from holdfast.agent import tool

if TYPE_CHECKING:
    from holdfast.agent import ToolContext


@tool
def refund(order: str, call: ToolContext, amount: Annotated[int, Field(ge=1)] = 1) -> str:
    return f"{order} {amount} {call.tool_call_id}"


def test_postponed_annotations_resolve_and_the_context_is_known_even_if_imported_for_typing_only():
    assert json.loads(refund.spec.parameters)["properties"] == {
        "order": {"type": "string"},
        "amount": {"type": "integer", "minimum": 1, "default": 1},
    }


def test_a_postponed_annotation_may_name_a_local_type():
    Size = Annotated[int, Field(le=3)]  # noqa: N806

    @tool
    def take(size: Size, call: ToolContext | None = None) -> None:
        pass

    assert json.loads(take.spec.parameters)["properties"] == {"size": {"type": "integer", "maximum": 3}}
