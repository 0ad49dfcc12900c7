"""Fixtures for unit tests of agents. PYTEST_DONT_REWRITE: pytest loads this in every project that has Holdfast.

Nothing of Holdfast is imported until a fixture is used.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .blocking_rehearsal import BlockingRehearsal
    from .rehearsal_result import RehearsalResult


@pytest.fixture
def holdfast_run() -> "Callable[..., RehearsalResult[Any]]":
    """`holdfast.testing.run_sync`: a whole conversation in one call."""
    from .blocking_rehearsal import run_sync  # noqa: PLC0415 - see above

    return run_sync


@pytest.fixture
def holdfast_rehearsal() -> "Iterator[Callable[..., BlockingRehearsal]]":
    """A function with the arguments of `holdfast.testing.Rehearsal` that opens a blocking one, closed with the test."""
    from .blocking_rehearsal import BlockingRehearsal  # noqa: PLC0415 - see above

    with ExitStack() as opened:
        yield lambda *args, **kwargs: opened.enter_context(BlockingRehearsal(*args, **kwargs))
