"""The bounds of what the server takes in and keeps open."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one server process.

    Attributes:
        body_bytes: How large the body of a request may be at most; each operation takes less where the limits of the agents say
            so. How deep its JSON may be nested, and how many values it may hold, is the same everywhere in Holdfast.
        body_s: How long a client may take to send a body, in seconds.
        query_bytes: How long the query of a URL may be.
        wait_s: How long a long poll may wait, in seconds.
        connections: How many connections `holdfast serve` keeps open at once, and at most half as many as the process may open
            files; one address has half of them. Where there is no room, one without a request gives way, else the new one is
            refused, to be tried again.
        head_s: How long a connection may be without a request, or take for the head of one, in seconds.
        flush_s: How long a peer may take in next to nothing of what it was sent, in seconds; then its connection is broken off.
        requests: How many requests may be under way at once, streams aside; more are refused, to be tried again.
        streams: How many event streams may be open at once; more are refused, to be tried again.
        heartbeat_s: After how many seconds without an event a stream says that it is alive.
        patience_s: How long a stream waits for a listener that takes nothing in, in seconds; then it is cut, and the listener
            resumes where it was.
        caller_per_s: How many requests a second each caller may send on the long run; more are refused, to be tried again.
            Every 4 KiB of a body count as one more, and every 16 KiB of a reply.
        caller_burst: How many requests a caller may send at once.
        failures_per_s: How many credentials a second that are not taken may come from one address on the long run.
        failures_burst: How many may come at once; then each costs no look of its own, and the good ones alone are let in.
    """

    body_bytes: int = 4 * 1024 * 1024
    body_s: float = 30.0
    query_bytes: int = 8 * 1024
    wait_s: float = 60.0
    connections: int = 4000
    head_s: float = 10.0
    flush_s: float = 30.0
    requests: int = 1000
    streams: int = 2000
    heartbeat_s: float = 15.0
    patience_s: float = 20.0
    caller_per_s: float = 500.0
    caller_burst: int = 1000
    failures_per_s: float = 0.5
    failures_burst: int = 20
