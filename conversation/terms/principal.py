"""The sender of a message or decision: a name with roles, and how it was proven."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from holdfast.errors import InvalidInput
from holdfast.visible import shows_whole

_CONTROL = r"\x00-\x1f\x7f-\x9f\ud800-\udfff"
NAME = re.compile(rf"[^\s{_CONTROL}](?:[^{_CONTROL}]{{0,198}}[^\s{_CONTROL}])?")
MOST_ROLES = 64


class Proof(StrEnum):
    """How a principal was proven."""

    STATED = "stated"  # the caller said so: code in the cluster, or the command line
    LINK = "link"  # a link that was made for it
    KEY = "key"  # an API key
    OIDC = "oidc"  # a token of an identity provider
    PROXY = "proxy"  # an authenticating proxy that the server knows


@dataclass(frozen=True, slots=True)
class Principal:
    """A person or a program that starts, sends or decides.

    Raises:
        InvalidInput: The id or a role is not a valid name, or there are too many roles.
    """

    id: Annotated[
        str,
        Field(
            description="The name, 1 to 200 characters without control characters and without white space around it: "
            "`ana@shop.example`."
        ),
    ]
    roles: Annotated[
        tuple[str, ...], Field(description="The principal's roles, at most 64 names of the same form: `finance`.")
    ] = field(default=(), kw_only=True)
    proof: Annotated[Proof, Field(description="How it was proven; set by the code that verified it.")] = field(
        default=Proof.STATED, kw_only=True
    )

    def __post_init__(self) -> None:
        _check("principal.id", self.id)
        if isinstance(self.roles, str) or not isinstance(self.roles, Iterable):
            raise InvalidInput("principal.roles", f"{self.roles!r:.40} is no list of names", 'give names: roles=("finance",)')
        roles = tuple(self.roles)
        if len(roles) > MOST_ROLES:
            raise InvalidInput("principal.roles", f"there are {len(roles)}", f"give {MOST_ROLES} at most")
        for role in roles:
            _check("principal.roles", role)
        object.__setattr__(self, "roles", roles)
        object.__setattr__(self, "proof", Proof(self.proof))

    @property
    def mark(self) -> str:
        """The principal's id with its proof: a stated one is not the proven one of the same name."""
        return f"{self.proof}:{self.id}"

    def check_visible(self) -> "Principal":
        """The principal itself; `InvalidInput` if its names have characters that a person does not see as they are.

        Principals from outside must pass this: names with invisible characters, characters that reverse the order of text, or
        look-alikes of a plain space could be mistaken for others. Names already in a log are read unchecked.
        """
        for what, name in (("principal.id", self.id), *(("principal.roles", role) for role in self.roles)):
            if not shows_whole(name):
                fix = "leave out invisible characters, and those that reverse text or look like a plain space"
                raise InvalidInput(what, f"{name!a:.60} does not show whole", fix)
        return self


def is_name(name: object) -> bool:
    """Whether a text from outside can be a principal's name, with every character visible."""
    return isinstance(name, str) and NAME.fullmatch(name) is not None and shows_whole(name)


def unproven(principal: Principal) -> InvalidInput:
    """The error for a principal that claims a proof which no server has made."""
    problem = f"no server has proven {principal.id!r:.60} by {principal.proof.value}"
    fix = "leave the proof out; to be proven, sign in to `holdfast serve` or use an API key"
    return InvalidInput("principal.proof", problem, fix)


def _check(what: str, name: object) -> None:
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        fix = "use 1 to 200 characters, without control characters and without white space around them"
        raise InvalidInput(what, f"{name!r:.60} is no name", fix)
