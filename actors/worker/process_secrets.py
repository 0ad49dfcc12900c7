"""The secrets of a worker's process, hidden from log lines, errors and spans."""

import os
import traceback
from collections.abc import Iterable

from holdfast.actors import logs
from holdfast.redaction import Redaction

from .work_spans import NO_CONTENT, Content

SIGNING = "HOLDFAST_APP_KEY"
"""The variable with the key that signs published apps; it is removed, so that the app's tools do not inherit it."""
TRACEBACK = 16_384


class ProcessSecrets:
    """The secrets that this process knows so far; `redaction` removes them."""

    def __init__(self, url: str, *, content: bool) -> None:
        self._unshared = {name: os.environ.pop(name) for name in (SIGNING,) if name in os.environ}
        self._named: set[str] = set()
        self._url = url
        self._shows_content = content
        self.learn(())

    def learn(self, named: Iterable[str]) -> None:
        """Treat the values of these environment variables as secrets too."""
        self._named.update(named)
        self.redaction = Redaction.of_process({**os.environ, **self._unshared}, self._named, urls=[self._url])
        logs.guard_process(self.redaction)

    @property
    def content(self) -> Content:
        """What spans show of content."""
        return Content(self.redaction) if self._shows_content else NO_CONTENT

    def removed_from(self, error: BaseException) -> str:
        """The traceback of an error, without these secrets."""
        return self.redaction.redacted("".join(traceback.format_exception(error)), TRACEBACK)
