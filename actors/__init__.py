"""The Ray shells: `ConversationActor`, which hosts conversations, and `Worker`, which runs models and tools.

Names are imported when they are first used: settings and outcomes are needed where ray must not be imported.
"""

from typing import TYPE_CHECKING

from holdfast.lazy import lazily

if TYPE_CHECKING:
    from .answers import Activation, AnswerToAsk, Failed, Hosted, NotHosted, Occupied, OwnedElsewhere, Replied
    from .conversation_actor import ConversationActor
    from .crew import Crew, CrewUnavailable, NoOutcome, WorkerLost, WorkPaused
    from .host import Host
    from .hosting import Hosting
    from .ray_cluster import find, hire, in_cluster, named
    from .ray_crew import successor_name, worker_name
    from .settings import RAY_NAMESPACE, ActorSettings, StoreAddress, WorkerSettings
    from .steps import Step
    from .worker import AppBroken, Worker

_HOMES = {
    "answers": ("Activation", "AnswerToAsk", "Failed", "Hosted", "NotHosted", "Occupied", "OwnedElsewhere", "Replied"),
    "conversation_actor": ("ConversationActor",),
    "host": ("Host",),
    "steps": ("Step",),
    "crew": ("Crew", "CrewUnavailable", "NoOutcome", "WorkPaused", "WorkerLost"),
    "hosting": ("Hosting",),
    "ray_cluster": ("find", "hire", "in_cluster", "named"),
    "ray_crew": ("successor_name", "worker_name"),
    "settings": ("RAY_NAMESPACE", "ActorSettings", "StoreAddress", "WorkerSettings"),
    "worker": ("AppBroken", "Worker"),
}

__all__ = [
    "RAY_NAMESPACE",
    "Activation",
    "ActorSettings",
    "AnswerToAsk",
    "AppBroken",
    "ConversationActor",
    "Crew",
    "CrewUnavailable",
    "Failed",
    "Host",
    "Hosted",
    "Hosting",
    "NoOutcome",
    "NotHosted",
    "Occupied",
    "OwnedElsewhere",
    "Replied",
    "Step",
    "StoreAddress",
    "WorkPaused",
    "Worker",
    "WorkerLost",
    "WorkerSettings",
    "find",
    "hire",
    "in_cluster",
    "named",
    "successor_name",
    "worker_name",
]


__getattr__ = lazily(__name__, _HOMES)
