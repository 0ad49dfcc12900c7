"""The record of a published app, for the workers that run it."""

from collections.abc import Mapping

from pydantic import Field

from holdfast.conversation.record import Record


class AppRecord(Record):
    """An app as its last publisher described it, with the names of its environment variables, never their values.

    `code` tells workers of different code apart; `source` is the digest of the app's source files, `prints` are fingerprints of
    its variables' values. `rules` are the digests of the agents' permission rules. `primaries` (the name of a tool's primary
    argument) and `approving` (tools whose approval is a function of the app) hold what rules need and a tool's spec lacks; both
    name a tool as `agent/tool`. The `signature` is made with a key that is not in the store.
    """

    app: str
    code: str
    python_path: tuple[str, ...] = ()
    main_file: str | None = None
    environment: tuple[str, ...] = ()
    agents: Mapping[str, str] = Field(default_factory=dict)
    source: str = ""
    prints: Mapping[str, str] = Field(default_factory=dict)
    signature: str = ""
    rules: Mapping[str, str] = Field(default_factory=dict)
    primaries: Mapping[str, str] = Field(default_factory=dict)
    approving: tuple[str, ...] = ()
