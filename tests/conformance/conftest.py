"""The stores that the suite runs over: in memory, and on every Redis server that this machine has.

On Redis it runs as the user that docs/security.md makes, with nothing but that user's permissions.
"""

import re
import uuid
from pathlib import Path

import pytest
import redis
from lacking import lacking
from redis_server import RedisServer, binaries


@pytest.fixture(scope="session", params=sorted(binaries()) or ["none"])
def server(request):
    found = binaries()
    if request.param not in found:
        lacking("there is no Redis server on this machine")
    with RedisServer(found[request.param]) as running:
        with redis.Redis(unix_socket_path=str(running.socket)) as operator:
            operator.execute_command(*documented_user("{"))
        running.url = f"unix://holdfast:PASSWORD@{running.socket}"
        yield running


def documented_user(tag):
    """The command of docs/security.md that makes Holdfast's user, for keys and channels that begin so."""
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    (command,) = re.findall(r"^(ACL SETUSER .*?)^```", page, re.MULTILINE | re.DOTALL)
    return command.replace("\\\n", " ").replace("{holdfast:", tag).split()


@pytest.fixture
def namespace():
    """A namespace that no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def documented(server):
    """A user `only`, made as the page says, to the letter but for its name."""
    with redis.Redis(unix_socket_path=str(server.socket)) as operator:
        operator.execute_command(*("only" if word == "holdfast" else word for word in documented_user("{holdfast:")))
