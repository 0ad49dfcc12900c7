"""The courier: it delivers what conversations owe, through interfaces without Ray.

Two couriers of one store, one of them frozen, do no harm: each thing owed is leased to one at a time, and only whoever holds
the lease says what became of it. What dies with a courier is delivered again once its lease is over.
"""

import asyncio
import contextlib
import logging
import random
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from holdfast import metrics
from holdfast.actors.steps import Reached, Step, logged
from holdfast.actors.workers import DeliverAnswer, Delivered, DeliverRequest, Later, NoWorker, SetAside, WorkerLost
from holdfast.background import Background
from holdfast.backoff import now_s
from holdfast.conversation.log.owed import OWN, Envelope, addressed, notified, shown_target
from holdfast.counting import Counts
from holdfast.errors import HoldfastError, StoreError, StoreUnavailable
from holdfast.persistence import Lane, Leased, Outbox, Verdict
from holdfast.redaction import PLAIN

logger = logging.getLogger("holdfast.courier")

AT_ONCE = 8
"""How many deliveries to one notification target run at once."""
OWN_AT_ONCE = 32
"""How many deliveries to conversations run at once: each goes to another one, and may wait for an actor."""
ANSWER_S = 50.0
"""Seconds that one delivery may take: those of a worker's start, and those that a target has."""
LEASE_MS = 90_000
"""For how long one delivery is leased (ms); longer than it may take, so that a courier that lives delivers only once."""
AHEAD = 24
"""How many more than run at once are leased: a lease takes as long for many as for one."""
LOOK_S = 5.0
"""Seconds between two looks at all buckets while there is nothing to deliver; what becomes owed is heard of at once."""
GATHER_S = 0.05
"""Seconds between two looks at least, so that many deliveries lead to few looks."""
FIRST_MS, LONGEST_MS = 1_000, 3_600_000
"""The first and the longest pause (ms) before something is tried again."""
DEATHS = 3
"""From this try on, what its worker dies of is set aside: each death takes the other work of the worker with it.

What has lost a worker is tried again alone among its like, so that what died with another one is not set aside for that.
"""

Notify: TypeAlias = Callable[[str, DeliverRequest], Awaitable[DeliverAnswer]]
"""Has a worker of an app tell one of its notification targets."""
Own: TypeAlias = Callable[[str, Leased], Awaitable[DeliverAnswer]]
"""Delivers to a conversation, named first."""


@dataclass(slots=True)
class _Lane:
    """A lane: how many of its deliveries run, what is leased and waits, and the buckets with further ones that are due.

    `latest` is the conversation whose delivery began last. What waits has the time (by the loop's clock) until which its
    delivery may begin, so that it ends within its lease.
    """

    running: int = 0
    latest: str = ""
    waiting: deque[tuple[float, Leased]] = field(default_factory=deque)
    due: deque[Lane] = field(default_factory=deque)
    refilling: bool = False

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do in it."""
        return not (self.running or self.waiting or self.due or self.refilling)


class Courier:
    """The courier of one store.

    `notify` tells notification targets; `own` delivers to conversations, by the kind of what is owed. While `may` is false,
    nothing is begun.
    """

    def __init__(
        self,
        store: Outbox,
        notify: Notify,
        own: Mapping[str, Own],
        *,
        may: Callable[[], bool] = lambda: True,
        counts: Counts | None = None,
        reached: Reached = logged,
    ) -> None:
        self._store = store
        self._notify = notify
        self._own = own
        self._may = may
        self._counts = Counts() if counts is None else counts
        self._reached = reached
        self._lanes: defaultdict[str, _Lane] = defaultdict(_Lane)
        self._tasks = Background()
        self._news = asyncio.Event()
        self._suspects: set[tuple[str, Envelope]] = set()
        self._alone = asyncio.Lock()

    async def run(self) -> None:
        """Deliver for ever."""
        self._tasks.start(self._listen())
        while True:
            pause_s = LOOK_S
            try:
                if self._may():
                    pause_s = await self.look()
            except StoreError as error:
                logger.warning("the store: %s", error)
            except Exception:
                logger.exception("a look at the outbox failed")
            await asyncio.sleep(GATHER_S)
            try:
                async with asyncio.timeout(pause_s):
                    await self._news.wait()
            except TimeoutError:
                pass
            self._news.clear()

    async def look(self) -> float:
        """Begin to deliver what is due; returns after how many seconds to look again."""
        now, lanes = await self._store.lanes()
        by_name: dict[str, list[Lane]] = defaultdict(list)
        for lane in lanes:
            if _known(lane.name):
                by_name[lane.name].append(lane)
        for name, found in by_name.items():
            self._lanes[name].due = deque(sorted((one for one in found if one.due_at <= now), key=lambda one: one.due_at))
            self._go_on(name)
        later = [one.due_at - now for found in by_name.values() for one in found if one.due_at > now]
        for name in [name for name, lane in self._lanes.items() if lane.idle]:
            del self._lanes[name]
        return min([LOOK_S, *(wait_ms / 1000 for wait_ms in later)])

    async def close(self) -> None:
        """Give the deliveries up that run; they are made again once their leases are over."""
        await self._tasks.close()

    async def _listen(self) -> None:
        while True:
            try:
                async for lane in self._store.owed_news():
                    if lane is None:
                        self._news.set()
                    elif _known(lane.name):
                        self._heard(lane)
            except StoreError as error:
                logger.debug("news of what is owed are not received: %s", error)
            except Exception:
                logger.exception("news of what is owed are not received")
            await asyncio.sleep(LOOK_S)

    def _heard(self, news: Lane) -> None:
        """Lease at once in a bucket in which something has become owed, without a look at the others."""
        lane = self._lanes[news.name]
        buckets = [one.bucket for one in lane.due]
        if news.bucket not in buckets[1 if lane.refilling else 0 :]:  # the first may have been leased from before
            lane.due.append(news)
        self._go_on(news.name)

    def _go_on(self, name: str) -> None:
        """Begin what a lane has room for, and lease more once little waits."""
        lane = self._lanes[name]
        if not self._may():
            return
        while lane.waiting and _has_room(name, lane, lane.waiting[0][1]):
            until_s, leased = lane.waiting.popleft()
            if now_s() < until_s:  # else it is leased anew once its lease is over
                self._begin(name, lane, leased)
        if lane.due and len(lane.waiting) <= AHEAD // 2 and not lane.refilling:
            lane.refilling = True
            self._tasks.start(self._refilled(name, lane))

    def _begin(self, name: str, lane: _Lane, leased: Leased) -> None:
        lane.running += 1
        lane.latest = leased.conversation_id
        self._tasks.start(self._delivered(name, lane, leased))

    async def _refilled(self, name: str, lane: _Lane) -> None:
        """Lease what a lane has due, as far as it has room."""
        try:
            while lane.due and self._may():
                room = _most(name) + AHEAD - lane.running - len(lane.waiting)
                if room <= 0:
                    break
                bucket, until_s = lane.due[0], now_s() + LEASE_MS / 1000 - ANSWER_S
                leased = await self._leased(lane, bucket, room)
                if len(leased) < room and lane.due and lane.due[0] == bucket:
                    lane.due.popleft()
                for one in leased:
                    if _has_room(name, lane, one):
                        self._begin(name, lane, one)
                    else:
                        lane.waiting.append((until_s, one))
        finally:
            lane.refilling = False
            self._go_on(name)

    async def _leased(self, lane: _Lane, bucket: Lane, most: int) -> Sequence[Leased]:
        """What is due in a bucket; nothing if that cannot be read, so that other buckets do not wait for it."""
        try:
            found = await self._store.lease(bucket, most=most, lease_ms=LEASE_MS)
        except StoreUnavailable as error:
            lane.due.clear()
            logger.warning("the store: %s", error)
        except StoreError as error:
            logger.warning("%s, bucket %d: %s", bucket.name, bucket.bucket, error)
        except Exception:
            logger.exception("%s, bucket %d: what is due cannot be leased", bucket.name, bucket.bucket)
        else:
            if found.dropped:
                logger.warning("%s: %d were dropped: set aside long ago, too many, or ill-formed", bucket.name, found.dropped)
                self._counts.add(metrics.DELIVERIES, shown_target(bucket.name), "dropped", by=found.dropped)
            return found.leased
        return ()

    async def _delivered(self, name: str, lane: _Lane, leased: Leased) -> None:
        try:
            self._reached(Step.OWED_1_LEASED)
            answer = await self._answered(leased)
            self._reached(Step.OWED_2_DELIVERED)
            await self._acknowledged(leased, answer)
            self._reached(Step.OWED_3_ACKNOWLEDGED)
        except StoreError as error:  # it is delivered again once its lease is over
            logger.warning("%s: %s is not acknowledged: %s", leased.conversation_id, leased.envelope.kind, error)
        finally:
            lane.running -= 1
            self._go_on(name)
            if not lane.due:
                self._news.set()  # the queue may have a next one

    async def _answered(self, leased: Leased) -> DeliverAnswer:
        name = leased.conversation_id, leased.envelope
        suspect = name in self._suspects
        self._suspects.discard(name)
        try:
            async with asyncio.timeout(ANSWER_S) as bound, self._alone if suspect else contextlib.nullcontext():
                return await self._handed_over(leased)
        except TimeoutError as error:
            return Later(f"no answer within {ANSWER_S:g} s" if bound.expired() else PLAIN.said(error, 300))
        except WorkerLost as error:
            if suspect and leased.tries >= DEATHS:
                return SetAside(PLAIN.said(error, 300))
            self._suspects.add(name)
            return Later(PLAIN.said(error, 300))
        except (NoWorker, HoldfastError) as error:
            return Later(PLAIN.said(error, 300))
        except Exception as error:
            logger.exception("%s: %s could not be delivered", leased.conversation_id, leased.envelope.kind)
            return Later(PLAIN.said(error, 300))

    async def _handed_over(self, leased: Leased) -> DeliverAnswer:
        envelope = leased.envelope
        found, to = notified(envelope.target), addressed(envelope.target)
        if found is not None:
            name, app = found
            return await self._notify(app, DeliverRequest(leased.conversation_id, name, envelope))
        if to is None:
            return SetAside(f"{envelope.target!r:.200} is no target")
        if envelope.kind not in self._own:  # a release that knows it may follow, or come back
            return Later(f"this release delivers no {envelope.kind!r:.60} to {envelope.target!r:.200}")
        return await self._own[envelope.kind](to, leased)

    async def _acknowledged(self, leased: Leased, answer: DeliverAnswer) -> None:
        match answer:
            case Delivered():
                done = await self._store.acknowledge(leased, Verdict.DELIVERED)
            case SetAside(reason):
                done = await self._store.acknowledge(leased, Verdict.ASIDE, reason=reason)
            case Later(reason, after_ms):
                pause_ms = backoff_ms(leased.tries) if after_ms is None else min(max(after_ms, FIRST_MS), LONGEST_MS)
                done = await self._store.acknowledge(leased, Verdict.LATER, reason=reason, after_ms=pause_ms)
        if done is None:
            logger.info("%s: the lease of %s was over", leased.conversation_id, leased.envelope.kind)
            return
        self._counts.add(metrics.DELIVERIES, shown_target(leased.envelope.target), done.value)
        if not isinstance(answer, Delivered):
            envelope = leased.envelope
            logger.warning("%s: %s to %s: %s", leased.conversation_id, envelope.kind, envelope.target, answer.reason)


def backoff_ms(tries: int) -> int:
    """The pause before the next try after so many: from `FIRST_MS`, twice as long each time, up to `LONGEST_MS`."""
    pause_ms = (FIRST_MS << min(tries - 1, 20)) * random.uniform(1, 1.25)  # noqa: S311 - jitter
    return min(round(pause_ms), LONGEST_MS)


def _known(name: str) -> bool:
    """Whether this release has such lanes."""
    return name == OWN or notified(name) is not None


def _has_room(name: str, lane: _Lane, leased: Leased) -> bool:
    """Whether a delivery may begin. What one conversation owes others begins together, so that it is read once for all."""
    return lane.running < _most(name) or (name == OWN and lane.latest == leased.conversation_id)


def _most(name: str) -> int:
    return OWN_AT_ONCE if name == OWN else AT_ONCE
