"""The embedded Redis and its home, with real servers and real deaths."""

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from holdfast.embedded import local_redis
from holdfast.embedded.home import Home, HomeRecord
from holdfast.embedded.local_redis import ensure_redis, running_redis, stop_redis
from holdfast.embedded.server_binary import server_for
from holdfast.errors import HomeUnusable, StoreUnavailable

KEY = "holdfast:store-id"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    opened = Home.open(tmp_path / "home")
    yield opened
    stop_redis(opened)
    remove_runtime(opened)


@pytest.fixture
def client(home: Home) -> Iterator["redis.Redis"]:
    with redis.Redis(unix_socket_path=str(home.socket("redis.sock"))) as opened:
        yield opened


def remove_runtime(home: Home) -> None:
    if home.runtime.exists():
        home.runtime.rmdir()


def until(condition: Callable[[], bool], within_s: float = 30) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)


def script(home: Home, text: str) -> list[str]:
    """Return the command of a process that runs some lines with `home` and the module at hand."""
    start = f"""
        import os, signal, sys
        from holdfast.embedded import local_redis
        from holdfast.embedded.home import Home
        home = Home.open({str(home.path)!r})
    """
    return [sys.executable, "-c", textwrap.dedent(start) + textwrap.dedent(text)]


def server_pid(home: Home) -> int:
    return int((home.path / "redis.pid").read_text())


def is_locked(home: Home) -> bool:
    with home.lock("redis.lock") as lock:
        return lock is None


def fake_server(path: Path, says: str) -> str:
    path.write_text(f'#!/bin/sh\necho "{says}"\n')
    path.chmod(0o700)
    return str(path)


# --- starting, joining, stopping


def test_the_first_who_needs_the_server_starts_it_and_says_so_once(home, client):
    said: list[str] = []

    first = ensure_redis(home, announce=said.append)
    second = ensure_redis(home, announce=said.append)

    assert said == [f"holdfast: started a Redis server for {home.path}"]
    assert first == second == running_redis(home)
    with redis.Redis.from_url(first) as joined:
        assert joined.get(KEY).decode() == home.record().store_id
    settings = ("appendonly", "appendfsync", "save", "maxmemory-policy")
    assert [client.config_get(name)[name] for name in settings] == ["yes", "always", "", "noeviction"]


def test_the_server_listens_on_its_socket_only_and_the_socket_is_private(home):
    ensure_redis(home)

    opened = {link.readlink().name for link in Path(f"/proc/{server_pid(home)}/fd").iterdir() if link.is_symlink()}
    for table in ("tcp", "tcp6", "udp", "udp6"):
        inodes = {f"socket:[{line.split()[9]}]" for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]}
        assert not opened & inodes
    assert stat.S_IMODE(home.socket("redis.sock").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.runtime.stat().st_mode) == 0o700


def test_asking_whether_it_runs_starts_nothing(home):
    assert running_redis(home) is None
    assert not is_locked(home)
    assert not home.socket("redis.sock").exists()


def test_the_server_outlives_its_starter_and_keeps_none_of_its_pipes(home, client):
    # capture_output waits for the end of the pipe: a server that kept it would hang here
    done = subprocess.run(
        script(home, "print(local_redis.ensure_redis(home))"), capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.strip() == running_redis(home)
    assert client.ping()


def test_the_server_inherits_no_credentials(home, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")

    ensure_redis(home)

    assert b"sk-secret" not in Path(f"/proc/{server_pid(home)}/environ").read_bytes()


def test_stopping_keeps_the_data_and_leaves_nothing_behind(home, client):
    ensure_redis(home)
    client.set("kept", "yes")
    pid = server_pid(home)

    assert stop_redis(home)

    assert not is_locked(home)
    assert not local_redis._is_server(home, pid)
    assert not home.socket("redis.sock").exists()
    assert not stop_redis(home)
    ensure_redis(home)
    assert client.get("kept") == b"yes"


def test_a_server_that_does_not_answer_is_stopped_by_force(home, monkeypatch):
    monkeypatch.setattr(local_redis, "_ANSWER_S", 0.2)
    monkeypatch.setattr(local_redis, "_GRACE_S", 0.2)
    ensure_redis(home)
    os.kill(server_pid(home), signal.SIGSTOP)

    assert stop_redis(home)

    assert not is_locked(home)


def test_stopping_one_home_leaves_another_alone(home, tmp_path):
    other = Home.open(tmp_path / "other")
    try:
        ensure_redis(home)
        ensure_redis(other)
        assert stop_redis(home)
        assert running_redis(other) is not None
    finally:
        stop_redis(other)
        remove_runtime(other)


def test_a_pid_that_is_another_process_is_never_signalled(home, monkeypatch):
    ensure_redis(home)
    pid = server_pid(home)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as bystander:
        (home.path / "redis.pid").write_text(f"{bystander.pid}\n")
        monkeypatch.setattr(local_redis, "_GRACE_S", 0.0)
        try:
            assert stop_redis(home)  # through the socket
            assert bystander.poll() is None
            assert not local_redis._is_server(home, pid)
        finally:
            bystander.stdin.close()


# --- deaths


def test_what_was_written_survives_the_death_of_the_server(home, client):
    ensure_redis(home)
    store_id = home.record().store_id
    client.set("kept", "yes")
    first = server_pid(home)
    os.kill(first, signal.SIGKILL)
    until(lambda: not is_locked(home))

    ensure_redis(home)

    assert server_pid(home) != first
    assert client.get("kept") == b"yes"
    assert home.record().store_id == store_id


def test_an_incomplete_last_command_is_cut_and_the_rest_stays(home, client):
    ensure_redis(home)
    client.set("kept", "yes")
    os.kill(server_pid(home), signal.SIGKILL)
    until(lambda: not is_locked(home))
    with next((home.path / "redis").rglob("*.aof")).open("ab") as log:
        log.write(b"*3\r\n$3\r\nSET\r\n$4\r\nlo")

    ensure_redis(home)

    assert client.get("kept") == b"yes"


def test_a_damaged_log_is_refused_and_the_error_shows_why(home, client):
    ensure_redis(home)
    client.set("kept", "yes")
    stop_redis(home)
    log = next((home.path / "redis").rglob("*.aof"))
    damaged = log.read_bytes().replace(b"*3\r\n", b"!3\r\n")
    log.write_bytes(damaged)

    with pytest.raises(HomeUnusable, match="Bad file format"):
        ensure_redis(home)

    assert not is_locked(home)
    assert log.read_bytes() == damaged


DEATHS = {
    "holding the lock": "local_redis._start = lambda home, lock: die()",
    "after the server's start": "start = local_redis._start; local_redis._start = lambda *given: (start(*given), die())",
    "before the store id": "local_redis.uuid.uuid4 = die",
    "before the record": "Home.write = lambda home, record: die()",
}


@pytest.mark.parametrize("moment", DEATHS)
def test_a_starter_may_be_killed_at_any_moment(home, client, moment):
    text = f"""
        def die():
            os.kill(os.getpid(), signal.SIGKILL)
        {DEATHS[moment]}
        local_redis.ensure_redis(home)
    """
    done = subprocess.run(script(home, text), timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL

    ensure_redis(home)

    assert client.get(KEY).decode() == home.record().store_id


def test_processes_that_race_share_one_server_however_slowly_it_comes_up(home, tmp_path, monkeypatch):
    slow = tmp_path / "slow-server"
    slow.write_text(f'#!/bin/sh\n[ "$1" = --version ] || sleep 0.5\nexec {server_for(home)[0]} "$@"\n')
    slow.chmod(0o700)
    monkeypatch.setenv("HOLDFAST_REDIS_SERVER", str(slow))
    text = """
        print("ready", flush=True)
        sys.stdin.readline()
        print(local_redis.ensure_redis(home, announce=print))
    """
    racers = [subprocess.Popen(script(home, text), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()

    printed = [racer.communicate(timeout=60)[0].splitlines() for racer in racers]

    assert [racer.returncode for racer in racers] == [0, 0, 0, 0]
    assert len({lines[-1] for lines in printed}) == 1
    assert sum(len(lines) for lines in printed) == 5  # four URLs and one announcement


def test_a_server_whose_socket_was_removed_is_replaced(home, client, monkeypatch):
    monkeypatch.setattr(local_redis, "_LOST_AFTER_S", 0.2)
    ensure_redis(home)
    client.set("kept", "yes")
    first = server_pid(home)
    home.socket("redis.sock").unlink()  # what a logout does to XDG_RUNTIME_DIR
    client.connection_pool.disconnect()

    ensure_redis(home)

    assert server_pid(home) != first
    assert client.get("kept") == b"yes"


def test_waiting_ends_at_the_deadline(home):
    with home.lock("redis.lock") as lock:
        assert lock is not None
        with pytest.raises(StoreUnavailable, match="did not answer within 0"):
            ensure_redis(home, deadline_s=0)
        with pytest.raises(StoreUnavailable, match="still held"):
            stop_redis(home, deadline_s=0)


# --- whose data it is


def test_a_server_that_comes_up_without_the_recorded_data_is_refused_and_stopped(home, client):
    ensure_redis(home)
    client.set("kept", "yes")
    stop_redis(home)
    (home.path / "redis").rename(home.path / "moved")

    with pytest.raises(HomeUnusable, match="came up with the store id None"):
        ensure_redis(home)

    assert not is_locked(home)
    (home.path / "redis").rename(home.path / "empty")
    (home.path / "moved").rename(home.path / "redis")
    ensure_redis(home)
    assert client.get("kept") == b"yes"


def test_a_server_with_another_stores_data_is_refused(home):
    ensure_redis(home)
    record = home.record()
    stop_redis(home)
    home.write(record.model_copy(update={"store_id": "another"}))

    with pytest.raises(HomeUnusable, match="not with the recorded 'another'"):
        ensure_redis(home)

    assert not is_locked(home)


def test_a_joiner_refuses_other_data_but_stops_nothing(home):
    ensure_redis(home)
    home.write(home.record().model_copy(update={"store_id": "another"}))

    with pytest.raises(HomeUnusable):
        ensure_redis(home)

    assert running_redis(home) is not None


def test_a_home_that_lost_its_record_adopts_the_store_id_of_its_data(home):
    ensure_redis(home)
    store_id = home.record().store_id
    stop_redis(home)
    (home.path / "home.json").unlink()

    ensure_redis(home)

    assert home.record().store_id == store_id


# --- which server


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("redis 7.0.15", "Redis server v=6.2.14 sha=0:0 malloc=libc bits=64 build=0"),
        ("redis 7.4.1", "Valkey server v=8.0.1 sha=0:0 malloc=libc bits=64 build=0"),
        ("valkey 8.0.1", "Redis server v=8.2.0 sha=0:0 malloc=libc bits=64 build=0"),
    ],
)
def test_a_server_that_may_not_read_the_data_is_refused_before_it_starts(home, tmp_path, monkeypatch, written, says):
    monkeypatch.setenv("HOLDFAST_REDIS_SERVER", fake_server(tmp_path / "server", says))
    home.write(HomeRecord.of("s", *written.split()))

    with pytest.raises(HomeUnusable, match=f"written by {written}"):
        ensure_redis(home)

    assert not is_locked(home)


# --- the home


def test_a_home_is_private_and_a_long_path_still_has_room_for_sockets(tmp_path):
    home = Home.open(tmp_path / ("long" * 30) / "home")

    try:
        assert stat.S_IMODE(home.path.stat().st_mode) == 0o700
        assert len(os.fsencode(home.socket("redis.sock"))) <= 107
        assert Home.open(home.path) == home
    finally:
        remove_runtime(home)


def test_the_default_home_follows_the_xdg_base_directories(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    stated = Home.open()
    monkeypatch.setenv("XDG_STATE_HOME", "relative/paths/do/not/count")
    default = Home.open()

    try:
        assert stated.path == tmp_path / "state" / "holdfast"
        assert default.path == tmp_path / ".local" / "state" / "holdfast"
    finally:
        remove_runtime(stated)
        remove_runtime(default)


def test_processes_with_another_environment_find_the_same_sockets(tmp_path, monkeypatch, request):
    session = Path(f"/tmp/hf-xdg-{os.getpid()}")
    session.mkdir(mode=0o700)
    request.addfinalizer(session.rmdir)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    login = Home.open(tmp_path / "home")
    request.addfinalizer(lambda: remove_runtime(login))
    monkeypatch.delenv("XDG_RUNTIME_DIR")

    cron = Home.open(tmp_path / "home")

    assert login == cron
    assert cron.runtime.parent == session
    cron.runtime.rmdir()
    login.path.joinpath("runtime").write_text("/nowhere/at/all\n")  # as after a logout
    moved = Home.open(tmp_path / "home")
    remove_runtime(moved)
    assert moved.runtime.parent == Path("/tmp")


def test_a_session_directory_that_is_too_long_is_passed_over(tmp_path, monkeypatch):
    session = tmp_path / ("x" * 60)
    session.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))

    home = Home.open(tmp_path / "home")

    assert home.runtime.parent != session
    remove_runtime(home)


def test_a_socket_path_that_is_too_long_is_refused_by_name(tmp_path):
    home = Home(tmp_path, tmp_path / ("x" * 107))

    with pytest.raises(HomeUnusable, match="more than the 107"):
        home.socket("redis.sock")


def test_a_server_goes_on_in_another_runtime_directory_when_somebody_took_the_first(home, client, monkeypatch):
    monkeypatch.setattr(local_redis, "_LOST_AFTER_S", 0.2)
    ensure_redis(home)
    client.set("kept", "yes")
    first = server_pid(home)
    home.socket("redis.sock").unlink()
    home.runtime.rmdir()
    home.runtime.symlink_to(home.path.parent)  # what is there now is not the home's
    (home.path.parent / "redis.sock").touch()

    again = Home.open(home.path)
    url = ensure_redis(again)

    assert again.runtime != home.runtime
    assert str(again.runtime) in url
    with redis.Redis.from_url(url) as joined:
        assert joined.get("kept") == b"yes"
    assert server_pid(again) != first
    home.runtime.unlink()
    stop_redis(again)
    remove_runtime(again)


def test_all_that_the_server_writes_is_private_whatever_the_umask(home, client):
    before = os.umask(0)
    try:
        ensure_redis(home)
        client.set("kept", "yes")
        client.bgrewriteaof()
        until(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
    finally:
        os.umask(before)

    written = {path: stat.S_IMODE(path.lstat().st_mode) for path in home.path.rglob("*")}
    assert any(path.suffix == ".aof" for path in written)
    assert set(written.values()) <= {0o600, 0o700}, written
    assert "ready to accept connections" in (home.path / "redis.log").read_text().lower()


def test_a_home_of_another_format_is_refused_before_anything_starts(home):
    home.write(HomeRecord.of("s", "redis", "6.2.14"))
    written = json.loads((home.path / "home.json").read_text())
    (home.path / "home.json").write_text(json.dumps(written | {"format": 2, "news": True}))

    with pytest.raises(HomeUnusable, match=r"format 2.*use the Holdfast that wrote it"):
        ensure_redis(home)

    assert not is_locked(home)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "{}", '{"format": 1}', "\udcff"])
def test_a_record_that_is_none_is_refused(home, text):
    (home.path / "home.json").write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(HomeUnusable, match=r"home\.json"):
        home.record()


def test_a_record_comes_back_as_it_was_written(home):
    record = HomeRecord.of("s", "redis", "6.2.14")

    home.write(record)

    assert home.record() == record
    assert stat.S_IMODE((home.path / "home.json").stat().st_mode) == 0o600
