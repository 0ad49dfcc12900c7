"""What an app's publisher says of it, for the workers that run it."""

from collections.abc import Mapping

from pydantic import Field

from holdfast.conversation.record import Record


class AppRecord(Record):
    """An app as its last publisher described it, with the names of its environment variables, never their values.

    `code` tells workers of different code apart; `source` is the digest of the app's source files, `prints` tell values of its
    variables apart. `rules` are the digests of the permission rules of those agents that have any. What rules judge of a tool
    and its spec does not say stands under `agent/tool`: in `primaries` the name of its primary argument, and in `approving` the
    tools whose approval is a function of the app. The `signature` is made with a key that is not in the store.
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
