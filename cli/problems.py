"""`holdfast problems`: all problems that a person must see, in one list. It needs Redis alone."""

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from holdfast.client.problems import Problem, problems_of
from holdfast.redaction import Redaction

from .display import Said, clean, shorten, span
from .errors import ExitCode
from .hints import command
from .redis_url import to_copy
from .session import Session

SCHEMA = 1
"""The version of the `--json` output. Later releases may add fields under the same number."""
LINE_LENGTH = 200


async def run(on: Session) -> Said:
    """List the problems that a person must see: each kind with its age, its number, some names, and the command that helps.

    Problems are apps that no worker can run, lost runs that wait for a person, conversations in quarantine or in trouble, hung
    actors, and overdue deadlines. It needs Redis alone and changes nothing. Exit code: 0 without a problem, else 1.
    """
    store, settings = await on.stack.store(), on.stack.settings
    secrets = Redaction.of_process(os.environ, urls=[settings.redis_url or ""])
    problems = await problems_of(store, settings.timing, partial(command, where=on.where))
    found, now = [without_secrets(one, secrets) for one in problems], await store.now()
    data = {"schema": SCHEMA, "at": now, "problems": [as_dict(problem) for problem in found]}
    return Said(data, drawn(found, now), code=ExitCode.FAILED if found else ExitCode.DONE)


def without_secrets(problem: Problem, secrets: Redaction) -> Problem:
    """The problem without secrets in its texts and command."""
    which = [replace(one, reason=secrets.redacted(one.reason)) for one in problem.which]
    return replace(problem, said=secrets.redacted(problem.said), fix=to_copy(problem.fix, secrets), which=which)


def as_dict(problem: Problem) -> dict[str, Any]:
    """A problem as plain JSON values."""
    return asdict(problem) | {"since": problem.since}


def drawn(found: Sequence[Problem], now: int) -> list[str]:
    """The lines for people: for each kind of problem one line, some names, and the command that helps."""
    if not found:
        return ["There are no problems."]
    said = []
    for problem in found:
        since = f", for {span(now - problem.since)}" if problem.since is not None else ""
        said.append(
            f"{problem.kind.replace('_', ' ')}: {'some' if problem.count is None else problem.count}{since}. {problem.said}"
        )
        for one in problem.which:
            age = span(now - one.since) if one.since is not None else "?"
            said.append(f"  {age:>8}  {one.name}" + (f"  {shorten(one.reason, LINE_LENGTH)}" if one.reason else ""))
        if problem.count is not None and problem.count > len(problem.which):
            said.append(f"  {'':8}  and {problem.count - len(problem.which)} more")
        said.append(f"  -> {problem.fix}")
    return [clean(line) for line in said]
