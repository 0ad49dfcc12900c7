"""The Ray actors: `ConversationActor`, which hosts conversations, and `Worker`, which runs models and tools.

Names are imported when they are first used: settings and answers are needed where ray must not be imported. Code that reaches
the store may raise `StoreError`, and code that reaches Ray `ClusterUnavailable`; docstrings name these only if they tell more.
"""

from typing import TYPE_CHECKING

from holdfast.lazy import lazily

if TYPE_CHECKING:
    from .activation.activation import Activation
    from .actor_settings import RAY_NAMESPACE, ActorSettings, StoreAddress, WorkerSettings
    from .answers import AnswerToActivate, AnswerToAsk, Failed, Hosted, NotHosted, Occupied, OwnedElsewhere, Replied
    from .conversation_actor import ConversationActor
    from .host import Host
    from .ray_launcher import find, in_cluster, named, spawn
    from .ray_workers import successor_name, worker_name
    from .steps import Step
    from .worker.refusals import AppBroken
    from .worker.worker import Worker
    from .workers import Claimed, NoOutcome, NoWorker, Workers, WorkPaused

_HOMES = {
    "answers": ("AnswerToActivate", "AnswerToAsk", "Failed", "Hosted", "NotHosted", "Occupied", "OwnedElsewhere", "Replied"),
    "conversation_actor": ("ConversationActor",),
    "host": ("Host",),
    "steps": ("Step",),
    "workers": ("Claimed", "Workers", "NoWorker", "NoOutcome", "WorkPaused"),
    "activation.activation": ("Activation",),
    "ray_launcher": ("find", "spawn", "in_cluster", "named"),
    "ray_workers": ("successor_name", "worker_name"),
    "actor_settings": ("RAY_NAMESPACE", "ActorSettings", "StoreAddress", "WorkerSettings"),
    "worker.refusals": ("AppBroken",),
    "worker.worker": ("Worker",),
}

__all__ = [
    "RAY_NAMESPACE",
    "Activation",
    "ActorSettings",
    "AnswerToActivate",
    "AnswerToAsk",
    "AppBroken",
    "Claimed",
    "ConversationActor",
    "Failed",
    "Host",
    "Hosted",
    "NoOutcome",
    "NoWorker",
    "NotHosted",
    "Occupied",
    "OwnedElsewhere",
    "Replied",
    "Step",
    "StoreAddress",
    "WorkPaused",
    "Worker",
    "WorkerSettings",
    "Workers",
    "find",
    "in_cluster",
    "named",
    "spawn",
    "successor_name",
    "worker_name",
]


__getattr__ = lazily(__name__, _HOMES)
