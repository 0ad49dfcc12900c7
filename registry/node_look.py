"""The question to a node and its answer. It does not import Ray, which a program imports once it knows its cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.machine_load import MachineLoad


@dataclass(frozen=True, slots=True)
class AppToImport:
    """The app that a node is to import, with its path and variables."""

    path: str
    python_path: tuple[str, ...] = ()
    main_file: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class NodeLook:
    """The result of a look at one node.

    `ahead_ms` is how far the node's clock is ahead of the store's, and `uncertain_ms` the possible error; None if the store did
    not answer there, or was not asked. `store` says why the store cannot be reached, `app` why the app cannot be imported; None
    if it can, or was not tried. `failed` says why the look failed, if it did. `load` is the node's load, if known.
    """

    node: str
    ahead_ms: int | None = None
    uncertain_ms: int = 0
    store: str | None = None
    app: str | None = None
    failed: str | None = None
    load: MachineLoad | None = None
