"""Every error is the same over HTTP as in the process: its class, its fields with the types of their values, and its words."""

import pytest
from asgi_transport import AsgiTransport
from both_ways import raised
from errors_to_show import EXPORTED, SHOWN, as_told
from stores import WithActors
from writer import Writer, begin, call, start

from holdfast.agent import Agent, App
from holdfast.client import AsyncClient
from holdfast.client.http_address import Address
from holdfast.client.http_gateway import HttpGateway
from holdfast.client.stack_gateway import StackGateway
from holdfast.errors import ServerRefused, ServerUnavailable
from holdfast.persistence import MemoryStore
from holdfast.server import Authentication, create_app

HERE = Address("http://127.0.0.1:8484")
OF_HTTP = {ServerRefused, ServerUnavailable}
"""Errors of the way over HTTP itself, which no server tells of."""


class Both:
    """One store with a client on the stack, and one over HTTP."""

    def __init__(self, store):
        self.stack = WithActors(store, app=App(agents=[Agent(name="desk")]))
        self.inside = AsyncClient(StackGateway(self.stack, timeout_s=30))
        transport = AsgiTransport(create_app(self.inside, authentication=Authentication(anyone=True)))
        self.over_http = AsyncClient(HttpGateway(HERE, timeout_s=30, transport=transport))

    async def refusals(self, ask):
        """The errors that something asked of either client leads to, as they are compared."""

        async def asked(client):
            await ask(client)

        return [as_told(await raised(asked(client))) for client in (self.inside, self.over_http)]


@pytest.fixture
async def both():
    store = MemoryStore()
    found = Both(store)
    found.stack.writers["c-1"] = writer = await Writer.of(store, "c-1")
    await writer.do(start(), begin(), call(("refund", '{"order": 7}'), "ask"))
    yield found
    await found.over_http.aclose()


@pytest.mark.parametrize("error", [one for one in EXPORTED if one not in OF_HTTP], ids=lambda error: error.__name__)
async def test_what_a_command_raises_is_raised_over_http_too(both, error, monkeypatch):
    async def failing(*_, **__):
        raise SHOWN[error]

    monkeypatch.setattr(both.stack, "deliver", failing)
    inside, outside = await both.refusals(lambda client: client.conversation("c-1").send("Hello?", message_id="m-9"))
    assert outside == inside
    assert inside == as_told(SHOWN[error])


LISTS = {
    "conversations": ("limit", "after", "agent", "status"),
    "pending": ("limit", "after", "agent", "kind", "approver"),
    "given": ("by", "proof", "limit", "after"),
    "audit": ("agent", "status"),
    "events": ("after", "agent", "kind"),
}
BAD = {
    "limit": (0, -1, 1001, True, None, "7", "", 2.5, 10**40, "x" * 5000),
    "after": (7, "", "no cursor", b"1.c", "x" * 5000, "\ud800", "1.c-1\n", True),
    "agent": (7, "\ud800", [7]),
    "status": ("asleep", 7, ["idle"], "\ud800"),
    "kind": ("asleep", 7, ["approval"], "\ud800"),
    "by": (7, "", " ana", "x" * 300),
    "proof": ("sworn", 7, ["key"]),
    "approver": ("ana", 7),
}


@pytest.mark.parametrize(
    ("listed", "field", "value"),
    [(listed, field, value) for listed, fields in LISTS.items() for field in fields for value in BAD[field]],
)
async def test_a_bad_parameter_of_a_list_is_refused_in_the_same_words(both, listed, field, value):
    def ask(client):
        found = getattr(client, listed)(**{field: value})
        return anext(found) if hasattr(found, "__anext__") else found

    inside, outside = await both.refusals(ask)
    assert outside == inside
    assert inside[1]["field"] == ("str", field)


@pytest.mark.parametrize(
    "fields",
    [{"limit": 0, "after": "no cursor"}, {"after": 7, "agent": 7}, {"limit": 0, "kind": "asleep"}],
)
async def test_of_several_bad_parameters_the_same_one_is_named(both, fields):
    inside, outside = await both.refusals(lambda client: client.pending(**fields))
    assert outside == inside
