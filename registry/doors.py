"""A test, made over the network, whether Ray's ports answer a caller without a token.

This process's environment does not show how a cluster is guarded. Whoever reaches an open port can run code there.
"""

import asyncio
import contextlib
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from holdfast.errors import ConfigurationError

from .cluster import PREFACE, split

KNOCK_S = 5.0
NODES = 64
"""The most nodes on which ports are tried."""
AT_ONCE = 32
_PATH = "/api/holdfast"
"""A path that no Ray service has: Ray checks the token before the path, so the request does nothing."""
_UNAUTHENTICATED = b"\x0bgrpc-status\x0216"
"""The gRPC status of a missing token, as it stands in plain text in the header from Ray's servers."""
_ALERTS = ("CERTIFICATE REQUIRED", "HANDSHAKE FAILURE")
"""TLS alerts to a client without a certificate, sent in the handshake or, since TLS 1.3, after it."""
_HEAD_BYTES = 9
_FRAME_BYTES = 1 << 16
_DATA, _HEADERS, _RESET, _SETTINGS, _GOAWAY = 0, 1, 3, 4, 7
_END_STREAM, _ACK = 1, 1


class Manner(StrEnum):
    """A port's answer to a caller without a token."""

    REFUSED = "refused"  # it asks for a token or a certificate
    OPEN = "open"  # it answers
    UNCLEAR = "unclear"  # it sends something else, or nothing
    UNREACHED = "unreached"  # no connection to it from here


@dataclass(frozen=True, slots=True)
class Door:
    """A port of Ray: its process, its address, and the gRPC method to call; a port without a method speaks HTTP."""

    what: str
    address: str
    method: str | None = None


@dataclass(frozen=True, slots=True)
class Knocked:
    """A door, and its answer to a caller without a token."""

    door: Door
    manner: Manner


def gcs(address: str) -> Door:
    """The door of the GCS, through which processes join a cluster."""
    return Door("the GCS", address, "/ray.rpc.NodeInfoGcsService/CheckAlive")


def _nodes() -> list[dict[str, Any]]:
    import ray  # noqa: PLC0415 - the environment is set first

    return [node for node in ray.nodes() if node["Alive"]]


def doors() -> list[Door]:
    """The other doors of the joined cluster, of at most `NODES` nodes."""
    import ray  # noqa: PLC0415 - the environment is set first

    found = []
    dashboard = getattr(getattr(ray._private.worker.global_worker, "node", None), "webui_url", None)  # noqa: SLF001 - no public way
    if dashboard:
        found.append(Door("the dashboard", dashboard.rpartition("//")[2]))
    for node in _nodes()[:NODES]:
        host = node["NodeManagerAddress"]
        found.append(
            Door(f"the raylet of {host}", _at(host, node["NodeManagerPort"]), "/ray.rpc.NodeManagerService/GetSystemConfig")
        )
        for port, what in (("RuntimeEnvAgentPort", "the runtime environment agent"), ("DashboardAgentListenPort", "the agent")):
            if node.get(port, -1) > 0:
                found.append(Door(f"{what} of {host}", _at(host, node[port])))
    return found


def untried() -> int:
    """The number of nodes in the joined cluster whose ports are not tried."""
    return max(len(_nodes()) - NODES, 0)


def metrics() -> list[Door]:
    """The doors of the nodes' metrics, which Ray does not guard: whoever reaches one reads the metrics."""
    nodes = [node for node in _nodes() if node.get("MetricsExportPort", -1) > 0]
    return [
        Door(f"the metrics of {node['NodeManagerAddress']}", _at(node["NodeManagerAddress"], node["MetricsExportPort"]))
        for node in nodes[:NODES]
    ]


async def knock_all(found: Sequence[Door]) -> list[Knocked]:
    """Knock on all doors, `AT_ONCE` at a time; each takes at most twice `KNOCK_S`."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(door: Door) -> Knocked:
        async with limit:
            return Knocked(door, await knock(door))

    return list(await asyncio.gather(*map(one, found)))


async def knock(door: Door) -> Manner:
    """A door's answer to a request without a token.

    The port is tried with TLS and, if it does not speak TLS, in plain text: the port need not be as this process's RAY_USE_TLS
    says.
    """
    if door.method is None or os.environ.get("RAY_USE_TLS", "0") == "0":
        return await _knock(door, None)
    try:
        return await _knock(door, _anybody())
    except _NoTlsError:
        plain = await _knock(door, None)
        return Manner.UNCLEAR if plain is Manner.UNREACHED else plain


class _NoTlsError(Exception):
    """The port does not speak TLS, and did not ask for a certificate."""


async def _knock(door: Door, tls: ssl.SSLContext | None) -> Manner:
    manner = Manner.UNREACHED
    try:
        async with asyncio.timeout(KNOCK_S):
            host, port = split(door.address)
            reader, writer = await asyncio.open_connection(host, port)
            manner = Manner.UNCLEAR
            try:
                if tls is not None:
                    await _secured(writer, tls)
                if door.method is None:
                    manner = await _ask_http(reader, writer, door.address)
                else:
                    manner = await _ask_grpc(reader, writer, door.method, secure=tls is not None)
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except (TimeoutError, UnicodeError, ConfigurationError):
        return manner
    except (OSError, EOFError) as error:
        # Ray's TLS drops a client without a certificate in this way; a server that only hangs up has refused nothing.
        let_go = tls is not None and manner is Manner.UNCLEAR and isinstance(error, ssl.SSLError | ConnectionResetError)
        return Manner.REFUSED if let_go else manner
    return manner


async def _secured(writer: asyncio.StreamWriter, tls: ssl.SSLContext) -> None:
    try:
        await writer.start_tls(tls)
    except TimeoutError:
        raise
    except (OSError, EOFError) as error:
        said = str(error).upper().replace("_", " ")
        if isinstance(error, ssl.SSLError) and any(alert in said for alert in _ALERTS):
            raise
        raise _NoTlsError from error


def _at(host: str, port: int) -> str:
    return f"{host}:{port}"


def _anybody() -> ssl.SSLContext:
    """The TLS settings of a client without a certificate, which does not check the server's."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


async def _ask_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str) -> Manner:
    writer.write(f"GET {_PATH} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode("ascii"))
    words = (await reader.readline()).split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/"):  # noqa: PLR2004 - the protocol and the status
        return Manner.UNCLEAR
    return Manner.REFUSED if words[1] in (b"401", b"403") else Manner.OPEN


async def _ask_grpc(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, *, secure: bool) -> Manner:
    """Make one gRPC call with an empty message; Ray answers with data only if it admits the call."""
    writer.write(PREFACE + _frame(_SETTINGS, 0, 0) + _call(method, secure=secure))
    while True:
        head = await reader.readexactly(_HEAD_BYTES)
        size, kind, flags = int.from_bytes(head[:3]), head[3], head[4]
        if size > _FRAME_BYTES:
            return Manner.UNCLEAR
        payload = await reader.readexactly(size)
        match kind:
            case _ if kind == _DATA and payload:
                return Manner.OPEN
            case _ if kind == _HEADERS and flags & _END_STREAM:
                return Manner.REFUSED if _UNAUTHENTICATED in payload else Manner.UNCLEAR
            case _ if kind == _SETTINGS and not flags & _ACK:
                writer.write(_frame(_SETTINGS, _ACK, 0))
            case _ if kind in (_RESET, _GOAWAY):
                return Manner.UNCLEAR


def _call(method: str, *, secure: bool) -> bytes:
    headers = {
        ":method": "POST",
        ":scheme": "https" if secure else "http",
        ":path": method,
        ":authority": "ray",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    end_headers, empty_message = 4, bytes(5)
    block = b"".join(b"\0" + _text(name) + _text(value) for name, value in headers.items())
    return _frame(_HEADERS, end_headers, 1, block) + _frame(_DATA, _END_STREAM, 1, empty_message)


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def _text(text: str) -> bytes:
    """A text of at most 126 bytes as an uncompressed HTTP/2 header."""
    return bytes((len(text),)) + text.encode("ascii")
