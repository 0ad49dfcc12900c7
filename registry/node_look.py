"""The question to a node and its answer, without Ray, which a program imports only once it knows which cluster to join."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.machine_load import MachineLoad


@dataclass(frozen=True, slots=True)
class AppToImport:
    """The app that a node is to import, with the path and the variables for that."""

    path: str
    python_path: tuple[str, ...] = ()
    main_file: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class NodeLook:
    """The look at one node.

    Attributes:
        node: The node's address.
        ahead_ms: How far the node's clock is ahead of the store's; None if the store did not answer there, or was not asked.
        uncertain_ms: By how much `ahead_ms` may be wrong.
        store: Why the store cannot be reached from the node; None if it can, or was not asked.
        app: Why the app cannot be imported on the node; None if it can, or none was given.
        failed: Why the look failed; None if it did not.
        load: The node's load; None if it does not say.
    """

    node: str
    ahead_ms: int | None = None
    uncertain_ms: int = 0
    store: str | None = None
    app: str | None = None
    failed: str | None = None
    load: MachineLoad | None = None
