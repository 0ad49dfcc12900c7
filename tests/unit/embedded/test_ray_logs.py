"""Ray's logs in the home: those of the last sessions outlive them, and together they are bounded."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.embedded import local_ray, ray_logs
from holdfast.embedded.home import Home

LIVING = "session_2026-01-09_00-00-00_000000_9"


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_logs, "_answers", lambda path: path.parts[-3] == LIVING)
    made = tmp_path / "ray"
    made.mkdir()
    return made


def session(root, name, *, sizes=(10,)):
    """A session as Ray leaves it; the older its number, the older its logs."""
    made = root / name
    for folder in ("logs/old", "logs/events", "sockets", "runtime_resources/working_dir_files"):
        (made / folder).mkdir(parents=True)
    (made / "sockets" / "raylet").touch()
    (made / "runtime_resources" / "working_dir_files" / "x").write_text("x")
    (made / "gcs_server_port_1").write_text("1")
    for number, size in enumerate(sizes):
        path = made / "logs" / ("events" if number else "") / f"log-{number}"
        path.write_bytes(b"x" * size)
        at = int(name.rpartition("_")[2]) * 100 + number
        os.utime(path, (at, at))
    return made


def number(of):
    return f"session_2026-01-0{of}_00-00-00_000000_{of}"


def logs(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("log-*"))


def test_of_sessions_that_ended_the_logs_are_left_and_of_these_the_last(root):
    for one in (3, 1, 2, 6, 5, 4):
        session(root, number(one))
    (root / "session_latest").symlink_to(root / number(6))
    (root / "ray_current_cluster").write_text("127.0.0.1:1")

    ray_logs.settle(root)

    assert sorted(path.name for path in root.iterdir()) == [number(one) for one in (3, 4, 5, 6)]
    assert {path.name for one in root.iterdir() for path in one.iterdir()} == {"logs"}
    assert logs(root) == [f"{number(one)}/logs/log-0" for one in (3, 4, 5, 6)]
    ray_logs.settle(root)
    assert len(logs(root)) == ray_logs.FORMER_SESSIONS


def test_a_session_that_goes_on_elsewhere_is_left_alone(root):
    for one in range(1, 7):
        session(root, number(one))
    session(root, LIVING)

    ray_logs.settle(root)

    assert sorted(path.name for path in root.iterdir()) == [*(number(one) for one in (3, 4, 5, 6)), LIVING]
    assert {path.name for path in (root / LIVING).iterdir()} == {"logs", "sockets", "runtime_resources", "gcs_server_port_1"}


def test_what_is_beyond_the_bound_goes_the_oldest_first_and_nothing_that_is_written_to(root, monkeypatch):
    monkeypatch.setattr(ray_logs, "KEPT_BYTES", 25)
    first, second = session(root, number(1), sizes=(10, 10)), session(root, number(2), sizes=(10, 10))
    kept = first / "logs" / "log-0"

    ray_logs.bound(root, lambda: {str(kept)})

    assert logs(root) == [f"{number(1)}/logs/log-0", f"{number(2)}/logs/events/log-1"]
    assert (second / "sockets" / "raylet").exists()


def test_a_session_that_a_link_leads_to_counts_once_and_its_open_logs_stay(root, monkeypatch):
    monkeypatch.setattr(ray_logs, "KEPT_BYTES", 20)
    living = session(root, LIVING, sizes=(10, 10))
    (root / "session_latest").symlink_to(living)

    ray_logs.bound(root, lambda: pytest.fail("it was asked"))
    assert len(list(living.rglob("log-*"))) == 2

    monkeypatch.setattr(ray_logs, "KEPT_BYTES", 5)
    ray_logs.bound(root, lambda: {str(path) for path in living.rglob("log-*")})
    assert len(list(living.rglob("log-*"))) == 2


def test_what_is_within_the_bound_stays_and_nobody_is_asked_what_is_open(root, monkeypatch):
    monkeypatch.setattr(ray_logs, "KEPT_BYTES", 20)
    session(root, number(1), sizes=(10, 10))

    ray_logs.bound(root, lambda: pytest.fail("it was asked"))
    ray_logs.bound(root / "nowhere", lambda: pytest.fail("it was asked"))

    assert len(logs(root)) == 2


def test_a_log_that_this_process_writes_to_outlives_the_bound(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    home = Home(tmp_path, tmp_path / "run")
    monkeypatch.setattr(ray_logs, "KEPT_BYTES", 5)
    made = session(tmp_path / "ray", number(1), sizes=(10, 10))

    with (made / "logs" / "log-0").open("a"):
        local_ray.bound_logs(home)

    assert logs(tmp_path / "ray") == [f"{number(1)}/logs/log-0"]


def test_a_link_that_something_cleaned_away_is_made_again_and_one_elsewhere_is_not_believed(tmp_path):
    home = Home(tmp_path, tmp_path / "run")
    home.runtime.mkdir(mode=0o700)
    (tmp_path / "ray").mkdir()
    record = local_ray._Record(
        address="", temp_dir=str(home.runtime / "ray"), session=1, pids={}, ray_version="", python_version=""
    )

    assert local_ray._has_files(home, record)
    assert (home.runtime / "ray").readlink() == tmp_path / "ray"
    (home.runtime / "ray").unlink()
    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(lambda _: local_ray._has_files(home, record), range(32)))
    assert not local_ray._has_files(home, record.model_copy(update={"temp_dir": str(tmp_path / "ray")}))
    assert not local_ray._end(home, gently=False)
    assert list(home.runtime.iterdir()) == []
    (tmp_path / "ray").rmdir()
    assert not local_ray._has_files(home, record)


def test_a_home_inside_a_virtual_environment_serves_too(tmp_path, monkeypatch):
    home = Home(tmp_path / "venv" / "home", tmp_path / "run")
    for around, stays in ((tmp_path / "venv", False), (tmp_path / "other", True)):
        monkeypatch.setenv("VIRTUAL_ENV", str(around))

        env = local_ray._environment(home, tmp_path / "token")

        assert ("VIRTUAL_ENV" in env) is stays
        assert env["RAY_AUTH_TOKEN_PATH"] == str(tmp_path / "token")
        assert "RAY_AUTH_TOKEN" not in env


def test_who_looks_for_a_fault_has_ray_say_more_but_never_its_metrics(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_event_stats", "1")
    monkeypatch.setenv("RAY_enable_metrics_collection", "1")

    env = local_ray.RayAddress("127.0.0.1:1", tmp_path / "token").env

    assert env["RAY_event_stats"] == "1"
    assert env["RAY_debug_dump_period_milliseconds"] == "0"
    assert env["RAY_enable_metrics_collection"] == "0"
