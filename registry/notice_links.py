"""The links in notices: made where the courier runs, by keys that other processes lend, for workers that only pass them on."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from holdfast.actors.actor_settings import LinkSettings
from holdfast.actors.published import Published
from holdfast.actors.workers import DeliverRequest, NoApp
from holdfast.backoff import now_s
from holdfast.conversation import Principal
from holdfast.conversation.ids import digest
from holdfast.conversation.log.linking import link_terms
from holdfast.conversation.records import events as recorded
from holdfast.conversation.terms.link import LONGEST_LINK_S, LinkKeys, link_url
from holdfast.errors import ConfigurationError, HoldfastError
from holdfast.persistence import Store

logger = logging.getLogger("holdfast.courier")

WITHIN_S = 5.0
"""Seconds that the links of one notice may take; without an answer it goes out without them."""
KNOWN_S = 5.0
"""How old, in seconds, what is known of an app's deciders may be."""


class NoticeLinks:
    """The maker of the links of one store's notices; `lent` says what it makes them with, and None that nobody lends it."""

    def __init__(self, store: Store, published: Published, lent: Callable[[], LinkSettings | None]) -> None:
        self._lent = lent
        self._store = store
        self._published = published
        self._deciders: dict[str, tuple[float, Mapping[tuple[str, str], Principal]]] = {}
        self._warned = False

    async def added(self, app: str, request: DeliverRequest) -> DeliverRequest:
        """The request with a link for each decision that its target's decider can make; without any if none can be made."""
        try:
            async with asyncio.timeout(WITHIN_S):
                links = await self._links(app, request)
        except ConfigurationError as error:
            if not self._warned:
                logger.warning("notify %r names a decider, and its messages have no links: %s", request.target, error)
            self._warned = True
        except (HoldfastError, NoApp, TimeoutError) as error:
            logger.info("%s: a notice has no links: %s", request.conversation_id, error)
        except Exception:
            logger.exception("%s: the links of a notice could not be made", request.conversation_id)
        else:
            return replace(request, links=links)
        return request

    async def _links(self, app: str, request: DeliverRequest) -> Mapping[str, str]:
        deciders = await self._of_app(app)
        if not deciders:
            return {}
        state = await self._store.load(request.conversation_id)
        decider = deciders.get((state.agent, request.target))
        (event,) = await self._store.at(request.conversation_id, [request.envelope.seq])
        if decider is None or not isinstance(event, recorded.CallSuspended | recorded.CallReminded | recorded.CallEscalated):
            return {}
        found = state.calls.open_suspension(event.suspension_id)
        views = await self._store.pending_in(state, event.suspension_id)
        if found is None or not views or views[0].problem is not None:
            return {}
        lent = self._lent() or LinkSettings({}, "")
        keys = LinkKeys(lent.keys, self._store.store_id or "", self._store.namespace)
        latest = await self._store.now() + LONGEST_LINK_S * 1000
        until = min(latest, views[0].expires_at or latest)
        # The same message has the same links, so that a decision counts once, however often it comes.
        terms = link_terms(views[0], found[1].shown, decider, None, expires_at=until, nonce="")
        return {
            kind.value: link_url(
                lent.public_url,
                keys.signed(replace(terms, decisions=(kind,), nonce=digest("link", request.message_id, kind, length=32))),
            )
            for kind in terms.decisions
        }

    async def _of_app(self, app: str) -> Mapping[tuple[str, str], Principal]:
        """The deciders of an app's targets, by agent and target, as its published agents have them."""
        until_s, found = self._deciders.get(app, (0.0, {}))
        if now_s() >= until_s:
            record = await self._published.record(app)
            agents = [await self._published.agent(app, one) for one in record.agents] if record is not None else []
            found = {
                (agent.spec.name, target.name): target.decider
                for agent in agents
                if agent is not None and agent.spec is not None
                for target in agent.spec.notify
                if target.decider is not None
            }
            self._deciders[app] = now_s() + KNOWN_S, found
        return found
