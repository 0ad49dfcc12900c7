"""A wrapper around any store that fails on demand before or after the work, or delays it.

    store = FaultyStore(RedisStore(url), Faults(append={3: FailAfter()}, renew=FailBefore()))

The third `append` then happens and its reply is lost; every `renew` fails without having happened.
"""

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from holdfast.errors import StoreUnavailable
from holdfast.persistence import Store


@dataclass(frozen=True, slots=True)
class FailBefore:
    """Nothing happens, and the caller gets `StoreUnavailable` (or `error`)."""

    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class FailAfter:
    """The work is done and its reply is lost: the caller gets `StoreUnavailable` (or `error`)."""

    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Delay:
    """The work is done after `seconds`, or, if given, once `until` is set."""

    seconds: float = 0.0
    until: asyncio.Event | None = None


Fault: TypeAlias = FailBefore | FailAfter | Delay
Policy: TypeAlias = Callable[[str, int], Fault | None]
"""A function of a method's name and the number of its call, from 1, that returns the fault of this call, or None."""


class Faults:
    """A policy by method: one fault for all its calls, or faults by the number of the call, from 1.

    A name that is no store's method raises `AttributeError`.
    """

    def __init__(self, **methods: Fault | Mapping[int, Fault]) -> None:
        unknown = sorted(name for name in methods if not callable(getattr(Store, name, None)))
        if unknown:
            raise AttributeError(f"a store has no method {', '.join(unknown)}")
        self._methods = methods

    def __call__(self, method: str, number: int) -> Fault | None:
        """The fault of this call; see `Policy`."""
        found = self._methods.get(method)
        return found.get(number) if isinstance(found, Mapping) else found


class FaultyStore:
    """A `Store` whose methods have the faults that the policy gives; other calls pass through.

    Attributes:
        inner: The store that does the work.
        policy: The policy; may be replaced at any time.
        calls: How often each method was called.
    """

    def __init__(self, inner: Store, policy: Policy) -> None:
        self.inner = inner
        self.namespace = inner.namespace
        self.policy = policy
        self.calls: Counter[str] = Counter()

    def listen(self, conversation_id: str) -> AsyncIterator[bytes]:
        """See `Store.listen`; the fault comes when the iteration begins, `FailAfter` after the first payload."""
        self.calls["listen"] += 1
        return self._listen(conversation_id, self.policy("listen", self.calls["listen"]))

    async def _listen(self, conversation_id: str, fault: Fault | None) -> AsyncIterator[bytes]:
        await _before("listen", fault)
        async for payload in self.inner.listen(conversation_id):
            yield payload
            _after("listen", fault)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "inner":
            raise AttributeError(name)
        method = getattr(self.inner, name)
        if not inspect.iscoroutinefunction(method):
            return method

        async def faulty(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            fault = self.policy(name, self.calls[name])
            await _before(name, fault)
            answer = await method(*args, **kwargs)
            _after(name, fault)
            return answer

        return faulty


async def _before(method: str, fault: Fault | None) -> None:
    match fault:
        case FailBefore(error=error):
            raise error or StoreUnavailable(f"{method} was told to fail before the work")
        case Delay(seconds=seconds, until=until):
            await asyncio.sleep(seconds)
            if until is not None:
                await until.wait()


def _after(method: str, fault: Fault | None) -> None:
    if isinstance(fault, FailAfter):
        raise fault.error or StoreUnavailable(f"{method} was told to lose its answer")
