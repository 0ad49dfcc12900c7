"""An app whose code raises what has secrets in it: a database URL, and values of its environment."""

import os
import warnings
from typing import Annotated

from pydantic import AfterValidator

from holdfast.agent import Agent, App, tool


def refused() -> None:
    """Fail as drivers do: the URL and the password in the text, in what came before, and in what is beside."""
    url, key = os.environ["LEAKY_DATABASE_URL"], os.environ["LEAKY_API_KEY"]
    warnings.warn(f"deprecated: {url}\nWARNING forged", stacklevel=1)
    try:
        raise KeyError(key)  # noqa: TRY301 - the point
    except KeyError as error:
        raise ConnectionError(f"cannot connect to {url} with {key!r}\nWARNING forged") from error


@tool
def query() -> str:
    """Ask the database."""
    refused()
    return "never"


@tool
async def query_all() -> str:
    """Ask many databases."""
    try:
        refused()
    except ConnectionError as error:
        raise ExceptionGroup(f"all of {os.environ['LEAKY_DATABASE_URL']}", [error]) from error
    return "never"


def _known(value: str) -> str:
    refused()
    return value


@tool
def order(number: Annotated[str, AfterValidator(_known)]) -> str:
    """Look an order up."""
    return number


def _prompt(_: dict[str, object]) -> str:
    refused()
    return "never"


@tool(approval="required", prompt=_prompt)
def refund() -> str:
    """Refund an order."""
    return "never"


agent = Agent(
    name="leaky",
    model="openai/test",
    tools=[query, query_all, order, refund],
)
app = App(agents=[agent], env=["LEAKY_*", "OPENAI_API_*"])
