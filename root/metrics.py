"""The metrics: their names, meanings and labels, and the values read of them.

Counting, reading and display use only these. A label's values are declared by an app or known to Holdfast, never a
conversation, call or person, so the number of series is bounded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias


class MetricType(StrEnum):
    """How the values of a metric are to be read."""

    COUNTER = "counter"  # it only grows
    GAUGE = "gauge"  # the current value
    HISTOGRAM = "histogram"  # how many values lie up to each bound, and their sum


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: Its name for Prometheus, with the unit; a counter's name ends in `_total`.
        bounds: The upper bounds of a histogram's buckets, in rising order, in the metric's unit.
        parts: How many counted whole numbers make one of the metric's unit.
        waits: Whether its counts are sent only together with counts of other metrics: an idle process makes such counts too,
            and would otherwise send them each time.
    """

    name: str
    help: str
    type: MetricType = MetricType.COUNTER
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    parts: int = 1
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Distribution:
    """The values of a histogram: the count of each bucket (the last one is unbounded), and their sum."""

    buckets: tuple[int, ...]
    sum: float


Value: TypeAlias = float | Distribution


@dataclass(frozen=True, slots=True)
class Family:
    """The values of one metric, by the values of its labels."""

    metric: Metric
    values: Mapping[tuple[str, ...], Value] = field(default_factory=dict)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, text, MetricType.GAUGE, labels)


def _histogram(name: str, text: str, *labels: str, bounds: Sequence[float]) -> Metric:
    return Metric(name, text, MetricType.HISTOGRAM, labels, tuple(bounds))


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, text, MetricType.COUNTER, labels)


OTHER = "other"
"""The value of every label once a metric has `SERIES` series."""
WORK_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
FIRST_S = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
DECISION_S = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 86_400, 3 * 86_400, 7 * 86_400)
SCRIPT_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
RESOLVE_BOUNDS_S = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
NANOS = 1_000_000_000
REQUEST_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

# counted by conversation actors
STARTED = _counter("holdfast_conversations_started_total", "Conversations started.", "agent")
CHILDREN_STARTED = _counter(
    "holdfast_children_started_total", "Conversations started for a call that another one delegates.", "agent"
)
CHILDREN_ENDED = _counter("holdfast_children_ended_total", "Such conversations that have ended.", "agent")
MESSAGES = _counter("holdfast_messages_total", "Users' messages accepted.", "agent")
TURNS = _counter("holdfast_turns_total", "Turns that ended: completed, cancelled, or why they failed.", "agent", "outcome")
STOPPED = _counter(
    "holdfast_turns_stopped_total",
    "Completed turns that a bound of the agent's Stop ended, or whose reply was cut off, by which and why.",
    *("agent", "reason"),
)
SUMMARIES = _counter(
    "holdfast_summaries_total", "Summaries of the oldest messages of conversations: compacted, or why not.", "agent", "outcome"
)
SUSPENDED = _counter("holdfast_suspensions_total", "Calls that began to wait for someone outside.", "agent", "tool", "kind")
SETTLED = _counter(
    "holdfast_suspensions_settled_total",
    "Suspensions that ended: by a decision, expiry or cancellation.",
    *("agent", "kind", "by"),
)
STALE = _counter("holdfast_stale_decisions_total", "Decisions that came too late, or for no open call.", "agent", "reason")
WAIT = _histogram(
    "holdfast_decision_wait_seconds", "Time from a call's suspension to its decision.", "agent", "kind", bounds=DECISION_S
)
RESOLVE_S = _histogram(
    "holdfast_resolve_seconds",
    "Time from a decision's arrival at an actor until it is durable: the conversation was there, or was taken up for it.",
    "conversation_was",
    bounds=RESOLVE_BOUNDS_S,
)
ACTIVATIONS = _counter(
    "holdfast_activations_total",
    "Conversations taken into an actor: new, for a request, after an owner's death, or again by the owner itself.",
    "reason",
)
FENCED = _counter("holdfast_fenced_writes_total", "Writes refused because another activation owned the conversation.")
LOST = _counter("holdfast_runs_lost_total", "Runs of tools whose worker was gone without an outcome.", "agent")
QUARANTINED = _counter("holdfast_quarantines_total", "Conversations that an actor put in quarantine.")

# counted by all writers of the store
SCRIPT_S = _histogram(
    "holdfast_script_seconds", "Time of a script of the store, as its process saw it.", "script", bounds=SCRIPT_BOUNDS_S
)
REDIS_S = Metric(
    "holdfast_redis_seconds",
    "Time of a request of the store to Redis without a script (one or more commands), as its process saw it.",
    MetricType.HISTOGRAM,
    bounds=SCRIPT_BOUNDS_S,
    waits=True,
)

# counted by workers
MODEL_CALLS = _counter("holdfast_model_calls_total", "Model calls that ended: answered, or why not.", "model", "outcome")
MODEL_S = _histogram("holdfast_model_call_seconds", "Time of a model call, retries included.", "model", bounds=WORK_S)
MODEL_FIRST_S = _histogram(
    "holdfast_model_first_token_seconds", "Time from a request to the first piece of its answer.", "model", bounds=FIRST_S
)
MODEL_RETRIES = _counter("holdfast_model_retries_total", "Tries of model calls that failed and were repeated.", "model")
PASSED_ON = _counter(
    "holdfast_model_fallbacks_total",
    "Model calls that went on to a fallback, by the model that did not answer.",
    "model",
    "why",
)
BREAKERS = _counter(
    "holdfast_model_breakers_total", "Breakers of models that opened or closed, in any worker.", "model", "state"
)
TOKENS = _counter("holdfast_model_tokens_total", "Tokens, as providers count them.", "model", "direction")
TOKENS_OF = _counter(
    "holdfast_model_tokens_within_total",
    "Tokens within those of holdfast_model_tokens_total: of requests what a cache had, of answers what is thinking.",
    "model",
    "kind",
)
COST = Metric(
    "holdfast_model_cost_usd_total",
    "The cost of models' answers in US dollars, by litellm's price list.",
    labels=("model",),
    parts=NANOS,
)
RUNS = _counter(
    "holdfast_tool_runs_total",
    "Runs of tools that ended: ok, error, or suspended by their own body.",
    *("agent", "tool", "outcome"),
)
RUN_S = _histogram("holdfast_tool_run_seconds", "Time of a run of a tool.", "agent", "tool", bounds=WORK_S)

# counted by the sweeper
WAKES = _counter("holdfast_wakes_total", "Conversations that the sweeper woke, or could not wake.", "outcome")
DELIVERIES = _counter(
    "holdfast_deliveries_total",
    "Tries to deliver what is owed: delivered, to be tried later, or set aside; and what was dropped of it, long after.",
    "target",
    "outcome",
)
HUNG = _counter("holdfast_processes_ended_total", "Actors and workers ended because they answered nothing.", "kind")

COUNTED: tuple[Metric, ...] = (
    *(
        STARTED,
        CHILDREN_STARTED,
        CHILDREN_ENDED,
        MESSAGES,
        TURNS,
        STOPPED,
        SUSPENDED,
        SETTLED,
        STALE,
        WAIT,
        RESOLVE_S,
        ACTIVATIONS,
        FENCED,
        LOST,
        QUARANTINED,
    ),
    *(
        SCRIPT_S,
        REDIS_S,
        MODEL_CALLS,
        MODEL_S,
        MODEL_FIRST_S,
        MODEL_RETRIES,
        PASSED_ON,
        BREAKERS,
        TOKENS,
        TOKENS_OF,
        COST,
        RUNS,
        RUN_S,
        WAKES,
        HUNG,
        DELIVERIES,
    ),
)
"""The metrics that processes count and the store adds up."""

# read from the store
PENDING = _gauge("holdfast_pending_calls", "Calls that wait for someone outside.", "agent", "kind")
OLDEST = _gauge("holdfast_pending_oldest_age_seconds", "For how long the oldest pending call has waited.", "agent", "kind")
OLDER = _gauge(
    "holdfast_pending_calls_older", "Pending calls that have waited for at least so many seconds.", "kind", "seconds"
)
CONVERSATIONS = _gauge("holdfast_conversations", "Conversations by status.", "status")
ACTORS = _gauge("holdfast_actors", "Conversation actors that live.")
ACTORS_CAP = _gauge("holdfast_actors_cap", "How many conversation actors may live at once.")
ACTORS_OFFERED = _gauge("holdfast_actors_on_offer", "Actors on offer: blank, or with a conversation that rests.")
HOSTED = _gauge("holdfast_conversations_hosted", "Conversations in the memory of an actor.")
UNHOSTED = _gauge("holdfast_conversations_unhosted", "Conversations that no actor hosts, by status.", "status")
WORKERS = _gauge("holdfast_workers", "Workers that live, those for work that runs alone included.")
WORKERS_CAP = _gauge("holdfast_workers_cap", "How many workers an app has, those for work that runs alone aside.")
ATTENTION = _gauge("holdfast_conversations_overdue", "Conversations whose due time passed a minute ago or more.")
TROUBLED = _gauge("holdfast_conversations_troubled", "Conversations that cannot be taken up.")
PAUSES = _gauge("holdfast_pauses", "Pauses of new work that stand.")
HELD_BACK = _gauge("holdfast_conversations_paused", "Conversations released with work outstanding, because of a pause.")
BREAKERS_OPEN = _gauge(
    "holdfast_model_breakers_open",
    "Breakers of models that are not closed now: open, or half_open, by the worker that has them.",
    *("worker", "model", "state"),
)
BROKEN = _gauge("holdfast_apps_broken", "Apps that workers cannot run.")
OWED = _gauge("holdfast_outbox_owed", "Conversations that owe a target something.", "target")
OWED_AGE = _gauge("holdfast_outbox_oldest_age_seconds", "For how long the oldest of it has been owed.", "target")
SET_ASIDE = _gauge("holdfast_outbox_set_aside", "What could not be delivered to a target and was set aside.", "target")
SWEEPER_AGE = _gauge("holdfast_sweeper_silence_seconds", "For how long the sweeper has not renewed its cluster's binding.")

READ: tuple[Metric, ...] = (
    *(PENDING, OLDEST, OLDER, CONVERSATIONS, ACTORS, ACTORS_CAP, ACTORS_OFFERED, HOSTED, UNHOSTED, WORKERS),
    *(WORKERS_CAP, ATTENTION, TROUBLED, PAUSES, HELD_BACK, BREAKERS_OPEN, BROKEN, SWEEPER_AGE, OWED, OWED_AGE, SET_ASIDE),
)
"""The metrics that are read from the store and from Ray on request."""

# of one server
STORE_UP = _gauge("holdfast_store_up", "Whether the store answered this server.")
REQUESTS = _counter("holdfast_http_requests_total", "Requests that this server answered.", "method", "path", "status")
REQUEST_S = _histogram(
    "holdfast_http_request_seconds", "Time until a request's answer begins.", "path", bounds=REQUEST_BOUNDS_S
)
IN_PROGRESS = _gauge("holdfast_http_requests_in_progress", "Requests under way at this server, event streams aside.")
LISTENERS = _gauge("holdfast_http_listeners", "Event streams open at this server.")
SERVER_REDIS_S = _histogram(
    "holdfast_server_redis_seconds",
    "Time of this server's requests to Redis: a script by its name, or plain commands.",
    "operation",
    bounds=SCRIPT_BOUNDS_S,
)

SERVED: tuple[Metric, ...] = (STORE_UP, REQUESTS, REQUEST_S, IN_PROGRESS, LISTENERS, SERVER_REDIS_S)
"""The metrics of one server."""
