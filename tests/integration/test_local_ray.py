"""The embedded Ray, with real clusters and real deaths."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import httpx
import pytest

from holdfast.embedded import local_ray, ray_logs
from holdfast.embedded.home import Home
from holdfast.embedded.local_ray import RayAddress, ensure_ray, gone_rays, running_ray, stop_ray
from holdfast.errors import ClusterUnavailable, HomeUnusable

LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
MISLED = {
    "RAY_ADDRESS": "127.0.0.1:1",
    "RAY_AUTH_TOKEN": "another cluster's",
    "HOLDFAST_TEST_MARK": "inherited",
    "RAY_event_stats_print_interval_ms": "200",  # what is printed each minute would be seen at once
    "RAY_enable_metrics_collection": "1",
}
ASKED = [  # of each of Ray's services something that it tells or does
    "NodeInfoGcsService/GetAllNodeInfo",
    "InternalKVGcsService/InternalKVKeys",
    "NodeManagerService/GetSystemConfig",
    "NodeManagerService/GetNodeStats",
    "ObjectManagerService/Pull",
    "CoreWorkerService/GetCoreWorkerStats",
    "CoreWorkerService/PushTask",
    "ReporterService/GetTraceback",
]
PATHS = ["/", "/metrics", "/api/jobs/", "/get_or_create_runtime_env"]


def until(condition: Callable[[], bool], within_s: float = 60) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.05)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Home]:
    home = Home.open(path)
    try:
        yield home
    finally:
        stop_ray(home)
        home.runtime.rmdir()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with opened(tmp_path / "home") as made:
        yield made


@pytest.fixture(scope="module")
def raced(tmp_path_factory) -> Iterator[tuple[Home, list[str]]]:
    """A Ray that two processes needed at the same moment, and what each of them printed."""
    with opened(tmp_path_factory.mktemp("raced")) as made:
        racers = [subprocess.Popen(starter(made), env=os.environ | MISLED, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        printed = [racer.communicate(timeout=120)[0] for racer in racers]  # a daemon that kept the pipe would hang here
        assert [racer.returncode for racer in racers] == [0, 0]
        yield made, printed


def starter(home: Home) -> list[str]:
    text = f"""
        import sys
        from holdfast.embedded.home import Home
        from holdfast.embedded.local_ray import ensure_ray
        address = ensure_ray(Home.open({str(home.path)!r}), announce=print)
        print(address.address, "ray" in sys.modules)
    """
    return [sys.executable, "-c", textwrap.dedent(text)]


def driver(address: RayAddress, env: dict[str, str], text: str = "") -> "subprocess.Popen[str]":
    """Start a process that joins with an environment, runs some lines and says "joined" or "refused"."""
    start = f"""
        import os, ray, sys
        try:
            ray.init({address.address!r}, namespace="test", log_to_driver=False, configure_logging=False)
        except ConnectionError:
            print("refused")
            sys.exit()
    """
    lines = textwrap.dedent(start) + textwrap.dedent(text) + "\nprint('joined', flush=True)\nsys.stdin.read()\n"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return subprocess.Popen(
        [sys.executable, "-c", lines],
        env=clean | env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process: "subprocess.Popen[str]") -> list[str]:
    with process:
        said, complained = process.communicate(timeout=120)
    assert process.returncode == 0, complained
    return said.split()


def members(home: Home) -> list[int]:
    return [one.pid for one in local_ray._members([home.runtime / "ray"])]


def pid_of(home: Home, daemon: str) -> int:
    return local_ray._recorded(home).pids[daemon]


def listening(pids: list[int]) -> set[str]:
    """Return the addresses, as /proc writes them, on which some processes listen."""
    return {socket.partition(":")[0] for socket in sockets_of(pids)}


def ports(pids: list[int]) -> set[int]:
    """Return the ports on which some processes listen."""
    return {int(socket.partition(":")[2], 16) for socket in sockets_of(pids)}


def asked(port: int, method: str, token: str | None = None) -> str:
    """Ask one of Ray's services by gRPC; the status of the answer."""
    given = (("authorization", f"Bearer {token}"),) if token else ()
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=(("grpc.enable_http_proxy", 0),)) as channel:
        try:
            channel.unary_unary(f"/ray.rpc.{method}")(b"", timeout=30, metadata=given)
        except grpc.RpcError as error:
            return error.code().name
    return "OK"


def requested(http: httpx.Client, port: int, path: str) -> str:
    """Ask for a path by HTTP; the status of the answer, empty from what does not speak it."""
    try:
        return str(http.post(f"http://127.0.0.1:{port}{path}").status_code)
    except httpx.HTTPError:
        return ""


def sockets_of(pids: list[int]) -> set[str]:
    """Return the addresses and ports, as /proc writes them, on which some processes listen."""
    sockets = set()
    for pid in pids:
        with contextlib.suppress(FileNotFoundError):  # a worker that ended meanwhile
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):
                    sockets.add(link.readlink().name)
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                addresses.add(fields[1])
    return addresses


# --- starting and joining


def test_processes_that_race_share_one_ray_and_one_of_them_says_so(raced):
    home, printed = raced
    address = running_ray(home)

    assert [lines.splitlines()[-1] for lines in printed] == [f"{address.address} False"] * 2  # ray was not imported
    assert sorted(len(lines.splitlines()) for lines in printed) == [1, 2]
    assert any(lines.startswith(f"holdfast: started a local Ray for {home.path}\n") for lines in printed)


def test_a_later_process_joins_silently(raced):
    home, _ = raced
    said: list[str] = []

    address = ensure_ray(home, announce=said.append)

    assert said == []
    assert address == running_ray(home)
    assert stat.S_IMODE(address.token_path.stat().st_mode) == 0o600


def test_a_detached_actor_survives_its_driver_and_has_the_starters_environment(raced):
    address = running_ray(raced[0])
    make = """
        class Actor:
            def mark(self): return os.environ["HOLDFAST_TEST_MARK"], os.environ["LITELLM_LOCAL_MODEL_COST_MAP"]
        actor = ray.remote(Actor).options(name="a", lifetime="detached", num_cpus=0).remote()
        ray.get(actor.mark.remote())
    """
    ask = "print(*ray.get(ray.get_actor('a').mark.remote()))"

    assert answer(driver(address, address.env, make)) == ["joined"]
    assert answer(driver(address, address.env, ask)) == ["inherited", "True", "joined"]


def test_no_process_serves_a_dashboard(raced):
    programs = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in members(raced[0])}

    assert pid_of(raced[0], "raylet") in programs
    assert not [program for program in programs.values() if b"dashboard.py" in program]


def test_nobody_gets_in_without_the_token(raced, tmp_path):
    address = running_ray(raced[0])
    (tmp_path / "wrong").write_text("0" * 64)
    reach = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_NUM_REDIS_GET_RETRIES": "1", "HOME": str(tmp_path)}
    tries = [
        driver(address, reach),
        driver(address, reach | {"RAY_AUTH_MODE": "disabled"}),
        driver(address, reach | address.env | {"RAY_AUTH_TOKEN_PATH": str(tmp_path / "wrong")}),
        driver(address, reach | address.env | {"RAY_AUTH_TOKEN": "another cluster's"}),
    ]

    for one in tries:
        with one:
            said, complained = one.communicate(timeout=120)
        assert said == "refused\n"
        assert "InvalidAuthToken" in complained
    assert answer(driver(address, reach | address.env)) == ["joined"]


def test_nothing_listens_beyond_this_machine(raced):
    home, _ = raced
    address = running_ray(home)
    work = "ray.get(ray.remote(num_cpus=0)(lambda: 1).remote())"
    with driver(address, address.env, work) as joined:
        assert joined.stdout.readline() == "joined\n"

        found = listening(members(home))
        found_of_driver = listening([joined.pid])

        joined.stdin.close()
    assert found
    assert found_of_driver
    assert found | found_of_driver <= LOOPBACK


def test_no_port_tells_anything_to_who_has_no_token(raced):
    home, _ = raced
    address = running_ray(home)
    token = address.token_path.read_text()
    work = "ray.get(ray.remote(num_cpus=0)(lambda: 1).remote())"
    with driver(address, address.env, work) as joined, httpx.Client(trust_env=False, timeout=30) as http:
        assert joined.stdout.readline() == "joined\n"
        answers = {}
        for port in ports([*members(home), joined.pid]):
            answers[port] = {method: asked(port, method) for method in ASKED}
            answers[port] |= {path: requested(http, port, path) for path in PATHS}
        joined.stdin.close()

    refusals = {"UNAUTHENTICATED", "401"}
    for said in answers.values():
        assert set(said.values()) <= refusals | {"UNIMPLEMENTED", "UNAVAILABLE", ""}, answers
        assert set(said.values()) & refusals, answers
    gcs = int(address.address.rpartition(":")[2])
    (raylet,) = [port for port, said in answers.items() if said["NodeManagerService/GetSystemConfig"] in refusals]
    assert asked(gcs, "NodeInfoGcsService/GetAllNodeInfo", token) == "OK"  # so these are questions that get answers
    assert asked(raylet, "NodeManagerService/GetSystemConfig", token) == "OK"


def test_the_logs_lie_in_the_home_and_nothing_is_written_at_rest_over_and_over(raced):
    home, _ = raced
    (session,) = (home.path / "ray").glob("session_2*")

    assert (home.runtime / "ray").readlink() == home.path / "ray"
    assert (session / "logs" / "raylet.out").stat().st_size > 0
    assert "Event stats" not in (session / "logs" / "gcs_server.out").read_text()
    assert not (session / "logs" / "debug_state.txt").exists()
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((home.path / "ray.log").stat().st_mode) == 0o600


def test_a_process_of_another_ray_or_python_is_told_what_to_do(raced, monkeypatch):
    home, _ = raced
    monkeypatch.setattr(local_ray, "installed_version", lambda _: "3.0.0")

    with pytest.raises(HomeUnusable, match=r"this process has 3\.0\.0.*holdfast down"):
        ensure_ray(home)

    assert running_ray(home) is not None


# --- deaths


@pytest.mark.parametrize(
    "daemon", [pytest.param("raylet", marks=pytest.mark.slow), pytest.param("gcs_server", marks=pytest.mark.gate)]
)
def test_after_a_daemons_death_the_remains_are_cleared_and_another_ray_starts(home, daemon):
    first = ensure_ray(home)
    token = first.token_path.read_text()
    before = members(home)
    os.kill(pid_of(home, daemon), signal.SIGKILL)
    until(lambda: running_ray(home) is None)

    second = ensure_ray(home)

    assert second == running_ray(home)
    assert not set(before) & set(members(home))
    assert second.token_path.read_text() == token
    assert second.gone == (first.cluster_id,)  # which frees a store at once that is bound to it
    lines = "from ray._private.worker import global_worker; print(global_worker.gcs_client.cluster_id.hex())"
    assert answer(driver(second, second.env, lines)) == [second.cluster_id, "joined"]


def test_a_starter_may_be_killed_while_ray_comes_up(home):
    with subprocess.Popen(starter(home), stdout=subprocess.DEVNULL) as killed:
        until(lambda: any(one.program == "gcs_server" for one in local_ray._heads([home.runtime / "ray"])))
        killed.kill()
    before = members(home)
    assert before

    address = ensure_ray(home)

    assert address == running_ray(home)
    assert not set(before) & set(members(home))


@pytest.mark.gate
def test_workers_that_no_daemon_is_left_for_are_found_by_their_files(home):
    address = ensure_ray(home)
    with driver(address, address.env, "ray.get(ray.remote(num_cpus=0)(lambda: 1).remote())") as joined:
        assert joined.stdout.readline() == "joined\n"
        heads = [one.pid for one in local_ray._heads([home.runtime / "ray"])]
        renamed = set(members(home)) - set(heads)
        for pid in renamed:
            os.kill(pid, signal.SIGSTOP)  # else they may end by themselves
        for pid in heads:
            os.kill(pid, signal.SIGKILL)
        joined.kill()
    until(lambda: not local_ray._heads([home.runtime / "ray"]))

    assert members(home)
    assert set(members(home)) <= renamed
    assert stop_ray(home)
    assert members(home) == []


# --- stopping


def test_stopping_ends_all_of_this_ray_and_nothing_else(home, raced):
    other, _ = raced
    ensure_ray(home)
    log = (home.runtime / "ray" / "session_latest" / "logs" / "gcs_server.out").resolve()
    with subprocess.Popen(["tail", "-f", str(log)], stdout=subprocess.DEVNULL) as reader:
        try:
            ray_logs.settle(home.runtime / "ray")  # as one in another container would, which shares the home
            assert running_ray(home) is not None
            assert stop_ray(home)
            assert reader.poll() is None
        finally:
            reader.kill()

    assert members(home) == []
    assert running_ray(home) is None
    assert list(home.runtime.iterdir()) == []
    (session,) = (home.path / "ray").iterdir()
    assert [part.name for part in session.iterdir()] == ["logs"]
    assert (session / "logs" / "gcs_server.out").stat().st_size > 0
    assert not stop_ray(home)
    assert running_ray(other) is not None


def test_asking_whether_it_runs_starts_nothing(home):
    assert running_ray(home) is None
    assert members(home) == []


# --- failing


def test_a_ray_that_does_not_start_is_an_error_with_its_last_words(home, monkeypatch):
    monkeypatch.setattr(local_ray, "_RAY", "import sys; sys.exit('no luck today')")

    with pytest.raises(ClusterUnavailable, match="no luck today"):
        ensure_ray(home)

    assert members(home) == []


def test_a_ray_that_takes_too_long_is_ended(home, monkeypatch):
    monkeypatch.setattr(local_ray, "_RAY", "import signal; signal.pause()")

    with pytest.raises(ClusterUnavailable, match="within its deadline"):
        ensure_ray(home, deadline_s=0.5)

    assert members(home) == []


def test_waiting_for_somebody_else_ends_at_the_deadline(home):
    with home.lock("ray.lock") as lock:
        assert lock is not None
        with pytest.raises(ClusterUnavailable, match="no Ray came up within 0"):
            ensure_ray(home, deadline_s=0)
        with pytest.raises(ClusterUnavailable, match="still holds"):
            stop_ray(home, deadline_s=0)


@pytest.mark.gate
def test_of_a_ray_that_another_container_has_started_from_this_home_it_is_not_believed_that_it_is_gone(home):
    def record(cluster_id: str, seen_from: str) -> None:
        made = local_ray._Record(
            address="127.0.0.1:1",
            temp_dir=str(home.runtime / "ray"),
            session=2**22 + 1,  # beyond any process
            pids={"gcs_server": 2**22 + 1, "raylet": 2**22 + 2},
            ray_version="",
            python_version="",
            cluster_id=cluster_id,
            seen_from=seen_from,
        )
        (home.path / "ray.json").write_text(made.model_dump_json())
        assert not stop_ray(home)

    here = local_ray._seen_from()
    boot_id, namespace, user = here.split()
    for elsewhere in ("", f"{boot_id} pid:[1] {user}", f"other-machine {namespace} {user}", f"{boot_id} {namespace} 99999"):
        record("cluster-0", elsewhere)
        assert gone_rays(home) == ()
    for number in range(1, 20):
        record(f"cluster-{number}", here)
    record("cluster-18", here)
    assert gone_rays(home)[-2:] == ("cluster-19", "cluster-18")
    assert len(gone_rays(home)) == 16
    (home.path / "ray-gone.json").write_text("not JSON")
    assert gone_rays(home) == ()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"address": "127.0.0.1:1"}'])
def test_a_damaged_record_counts_as_none(home, text):
    (home.path / "ray.json").write_text(text)

    assert running_ray(home) is None
    assert not stop_ray(home)
