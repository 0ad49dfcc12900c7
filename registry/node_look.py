"""What is asked of a node, and what it says. Without Ray, which a program imports only once it knows which cluster to join."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AppToImport:
    """Which app is to be imported, and from where."""

    path: str
    python_path: tuple[str, ...] = ()
    main_file: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class NodeLook:
    """What a node said.

    Attributes:
        node: Its address.
        ahead_ms: How far its clock is ahead of the store's, None if the store did not answer there.
        uncertain_ms: By how much that may be wrong.
        store: Why the store cannot be reached from there.
        app: Why the app cannot be imported there.
        failed: Why nothing is known of the node.
    """

    node: str
    ahead_ms: int | None = None
    uncertain_ms: int = 0
    store: str | None = None
    app: str | None = None
    failed: str | None = None
