"""A web application as gunicorn loads it; `PRELOADED_USE` says what is done with the client before workers are forked."""

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.client import Client, HoldfastError

client = Client.connect("shop_app:app", timeout_s=60)
match os.environ.get("PRELOADED_USE"):
    case "command":
        client.start("support", "preloaded", conversation_id="preloaded-parent")
    case "read":
        client.conversations()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """`/read` counts conversations, `/start/<id>` starts one; an error is told by its class and message."""
    path = environ["PATH_INFO"]
    said: Any
    try:
        if path == "/read":
            said = len(client.conversations().items)
        else:
            said = client.start("support", "preloaded", conversation_id=path.rpartition("/")[2]).wait(timeout_s=60).reply
    except HoldfastError as error:
        said = [type(error).__name__, str(error)]
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"pid": os.getpid(), "said": said}).encode()]
