"""Whether a real Ray lets in somebody who has no token, found out as `holdfast doctor` does: by knocking."""

import asyncio
import base64
import contextlib
import json
import os
import secrets
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest
import ray

from holdfast.cli.check import Outcome
from holdfast.cli.ray_checks import auth
from holdfast.registry.doors import Door, Knocked, Manner, gcs, knock_all

BINARY = Path(ray.__file__).parent / "core/src/ray/gcs/gcs_server"


@pytest.fixture(scope="module", params=["disabled", "token"])
def front(request, tmp_path_factory):
    """The GCS of a Ray that asks for no token, or for one, and nothing else of it."""
    folder = tmp_path_factory.mktemp("gcs")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = {
        "log_dir": folder,
        "config_list": base64.b64encode(json.dumps({}).encode()).decode(),
        "gcs_server_port": port,
        "metrics-agent-port": 0,
        "node-ip-address": "127.0.0.1",
        "session-name": "session_doors",
        "session-dir": folder,
        "node-id": secrets.token_hex(28),
        "ray-commit": "x",
    }
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    own = {"RAY_AUTH_MODE": request.param, "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    process = subprocess.Popen(
        [BINARY, *(f"--{name}={value}" for name, value in arguments.items())],
        env=clean | own,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until_listening(port, process)
        yield request.param, gcs(f"127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()


def until_listening(port, process):
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, "the GCS ended"
            assert time.monotonic() < deadline, "the GCS does not listen"
            time.sleep(0.05)
        else:
            return


@pytest.mark.parametrize("mine", ["token", "disabled"])
async def test_a_cluster_is_open_or_not_whatever_this_process_has_in_its_environment(front, mine, monkeypatch):
    mode, door = front
    monkeypatch.setenv("RAY_AUTH_MODE", mine)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)

    knocked = await knock_all([door])

    expected = {"disabled": (Manner.OPEN, Outcome.WARN), "token": (Manner.REFUSED, Outcome.OK)}[mode]
    assert (knocked[0].manner, auth(knocked, {door.address: True}).status) == expected
    if mode == "disabled":
        beyond = auth(knocked, {door.address: False})
        assert (beyond.status, "answers without a token: the GCS" in beyond.said) == (Outcome.FAIL, True)
        assert "RAY_AUTH_MODE=token" in beyond.fix


async def test_what_asks_for_another_method_or_is_no_ray_is_never_said_to_be_closed(front):
    _, door = front

    async def chatter(_, writer):
        writer.write(b"220 hello\r\n" * 10)
        writer.close()

    async with await asyncio.start_server(chatter, "127.0.0.1", 0) as other:
        talking = f"127.0.0.1:{other.sockets[0].getsockname()[1]}"
        strange = [Door("it", door.address, "/ray.rpc.Nothing/Nope"), gcs(talking), Door("it", talking)]
        knocked = await knock_all([*strange, gcs("127.0.0.1:1"), Door("it", "nowhere")])

    assert [one.manner for one in knocked] == [Manner.UNCLEAR] * 3 + [Manner.UNREACHED] * 2
    for one in knocked:
        check = auth([Knocked(one.door, one.manner)], {one.door.address: True})
        assert (check.status, "could not be told" in check.said) == (Outcome.WARN, True)


async def test_an_open_port_is_open_also_where_this_process_has_tls_on(front, monkeypatch):
    mode, door = front
    monkeypatch.setenv("RAY_USE_TLS", "1")

    async def hang_up(_, writer):
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as other:
        silent = gcs(f"127.0.0.1:{other.sockets[0].getsockname()[1]}")
        knocked = await knock_all([door, silent, gcs("127.0.0.1:1")])

    open_ = {"disabled": Manner.OPEN, "token": Manner.REFUSED}[mode]
    assert [one.manner for one in knocked] == [open_, Manner.UNCLEAR, Manner.UNREACHED]


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2])
async def test_a_port_that_asks_for_a_certificate_refuses_who_has_none(tmp_path, newest, monkeypatch):
    monkeypatch.setenv("RAY_USE_TLS", "1")
    pem, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=localhost", "-days", "1", "-keyout", str(key), "-out", str(pem)]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject]
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pem))
    context.load_cert_chain(pem, key)
    context.verify_mode, context.maximum_version = ssl.CERT_REQUIRED, newest

    def serve(listening):
        with contextlib.suppress(OSError):  # closed at the end of the test, however often it was knocked at
            while True:
                connection, _ = listening.accept()
                with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True):
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=[listening], daemon=True).start()
        knocked = await knock_all([gcs(f"127.0.0.1:{listening.getsockname()[1]}")])

    assert knocked[0].manner is Manner.REFUSED
