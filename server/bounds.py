"""The bounds of what the server takes in and keeps open."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one server process.

    Attributes:
        body_bytes: The largest body of a request, in bytes; an operation takes less if the agents' limits say so.
        body_s: The time for sending a body, in seconds.
        query_bytes: The longest query of a URL, in bytes.
        wait_s: The longest wait of a long poll, in seconds.
        connections: The most open connections of `holdfast serve`, at most half of the process's open-file limit; one address
            may have half of them. When all are taken, an idle connection is closed, or else the new one is refused for now.
        head_s: The longest time a connection may be idle, or take to send the head of a request, in seconds.
        flush_s: How long a peer may take in next to nothing of what it was sent, in seconds; then its connection is closed.
        requests: The most requests under way at once, without streams; more are refused for now.
        streams: The most open event streams; more are refused for now.
        heartbeat_s: Seconds without an event after which a stream sends a heartbeat.
        patience_s: How long a stream waits for a listener that takes nothing in, in seconds; then it is cut, and the listener
            resumes where it was.
        caller_per_s: The long-run rate of requests of one caller, per second; more are refused for now. Every 4 KiB of a body
            count as one more, and every 16 KiB of a reply.
        caller_burst: The most requests of a caller at once.
        failures_per_s: The long-run rate of rejected credentials from one address, per second.
        failures_burst: The most rejected ones at once. After that no attempt gets a lookup of its own; credentials that are
            known to be good are still let in.
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
