"""Behind nginx and Caddy, with the sites of deploy/ as they are written there: events pass as they come, and hosts stay."""

import contextlib
import datetime as dt
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
from pathlib import Path

import httpx
import pytest
from stack_fixture import eventually
from writer import send

from holdfast.server import drain

from .conftest import served

DEPLOY = Path(__file__).parents[3] / "deploy"
AROUND = """
daemon off; pid nginx.pid; error_log stderr; {user}
events {{}}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    include site.conf;
}}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def put(text, *replaced):
    """The text with each part replaced by what it is here; each of them must be there."""
    for before, after in replaced:
        assert before in text, f"{before} is not written there any more"
        text = text.replace(before, after)
    return text


def certify(certificate, key):
    """Write a certificate for 127.0.0.1 that certifies itself."""
    from cryptography import x509  # noqa: PLC0415 - an extra of tests
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above

    drawn = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(drawn.public_key()).serial_number(7)
    made = made.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    certificate.write_bytes(made.sign(drawn, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    key.write_bytes(drawn.private_bytes(*plain))


def nginx(folder, upstream):
    """The command, the URL and the trust of an nginx with the site of deploy/nginx.conf, over TLS."""
    port, certificate, key = free_port(), folder / "site.pem", folder / "site.key"
    certify(certificate, key)
    site = put(
        (DEPLOY / "nginx.conf").read_text(),
        ("server 127.0.0.1:8484;", f"server 127.0.0.1:{upstream};"),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/ssl/desk.example.com.pem", str(certificate)),
        ("/etc/ssl/desk.example.com.key", str(key)),
    )
    (folder / "site.conf").write_text(site)
    (folder / "nginx.conf").write_text(AROUND.format(user="user root;" if os.geteuid() == 0 else ""))
    command = ["nginx", "-p", str(folder), "-c", "nginx.conf", "-e", "stderr"]
    return command, f"https://localhost:{port}", ssl.create_default_context(cafile=certificate)


def caddy(folder, upstream):
    """The same for a Caddy with deploy/Caddyfile, which gets no certificate here."""
    port = free_port()
    site = put(
        (DEPLOY / "Caddyfile").read_text(),
        ("desk.example.com {", f"http://localhost:{port} {{"),
        ("reverse_proxy 127.0.0.1:8484 {", f"reverse_proxy 127.0.0.1:{upstream} {{"),
    )
    (folder / "Caddyfile").write_text("{\n\tadmin off\n}\n" + site)
    return ["caddy", "run", "--config", "Caddyfile"], f"http://localhost:{port}", False


PROXIES = {"nginx": nginx, "caddy": caddy}


@contextlib.contextmanager
def running(proxy, upstream):
    """A client of a proxy before a server."""
    folder = Path(tempfile.mkdtemp(prefix="hf-proxy-", dir="/tmp"))
    command, url, trust = PROXIES[proxy](folder, upstream)
    log = folder / "log"
    with log.open("wb") as output:
        env = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=output, stderr=output)
    try:
        with httpx.Client(base_url=url, verify=trust, timeout=30, trust_env=False) as client:

            def answers():
                assert process.poll() is None, log.read_text()
                with contextlib.suppress(httpx.TransportError):
                    return client.get("/health").status_code == 200
                return False

            eventually(answers, 30, "a server that answers through the proxy")
            yield client
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module", params=PROXIES)
def behind(request):
    """A server, the writer of its conversation, and a client of a proxy before it."""
    if shutil.which(request.param) is None:
        pytest.skip(f"there is no {request.param} on this machine")
    with served() as server:
        writer = server.waiting("c-1")
        with running(request.param, server.port) as client:
            yield server, writer, client


def events(lines):
    """The events of a stream, each as soon as its line is here."""
    return (json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: "))


def test_an_event_passes_before_the_next_one_is_there_and_a_stream_resumes(behind):
    server, writer, client = behind
    place = "/v1/conversations/c-1/events?live=false"

    with client.stream("GET", f"{place}&after={writer.state.seq}") as stream:
        server.run(writer.do(send("and another one", message_id="m-2")))
        seen = next(events(stream.iter_lines()))  # nothing comes after it, and no heartbeat for 15 s

    assert seen["kind"] == "message_accepted"
    assert stream.headers["content-type"].startswith("text/event-stream")
    with client.stream("GET", place, headers={"Last-Event-ID": str(seen["seq"] - 1)}) as stream:
        assert next(events(stream.iter_lines())) == seen
    eventually(lambda: not server.streams, 30, "the end of streams whose readers have left")


def test_the_server_sees_the_name_that_the_caller_used(behind):
    _, _, client = behind

    assert client.get("/health").json()  # under the name of the upstream it would be refused with 421
    assert client.get("/openapi.json").json()["servers"] == [{"url": "/"}]


def test_a_body_beyond_the_bound_is_refused_and_one_below_it_reaches_the_server(behind):
    _, _, client = behind
    place = "/v1/conversations/c-1/messages"

    with contextlib.suppress(httpx.TransportError):  # cut off while it was still sending
        answer = client.post(place, json={"text": "x" * (5 << 20)})
        assert answer.status_code in {413, 502}  # Caddy's own, if the server has refused before it
    refused = client.post(place, json={"text": "x" * (3 << 20), "unknown": 1})
    assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")


def test_metrics_are_not_for_those_outside(behind):
    _, _, client = behind
    answer = client.get("/metrics")

    assert (answer.status_code, "urn:holdfast" in answer.text) == (404, False)


@pytest.mark.parametrize("proxy", PROXIES)
def test_the_end_of_a_stream_passes_when_the_server_is_drained(proxy):
    if shutil.which(proxy) is None:
        pytest.skip(f"there is no {proxy} on this machine")
    with served() as server:
        server.waiting("c-1")
        with running(proxy, server.port) as client, client.stream("GET", "/v1/conversations/c-1/events") as stream:
            lines = stream.iter_lines()
            next(events(lines))
            drain(server.app)
            text = "\n".join(lines)

    assert re.search(r'event: stream_closed\ndata: .*"reason":"draining"', text)
