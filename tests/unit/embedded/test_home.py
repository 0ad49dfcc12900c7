"""The home of the embedded stack and its runtime directory: nobody else reads, writes or replaces them."""

import os
import shlex
import stat
from pathlib import Path

import pytest

from holdfast.embedded import home, local_redis, private
from holdfast.embedded.home import Home
from holdfast.errors import HomeUnusable

SOMEBODY = 4242


@pytest.fixture
def short(tmp_path, monkeypatch):
    """A directory for runtime directories, in place of /tmp."""
    made = tmp_path / "run"
    made.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(made))
    monkeypatch.setattr(home, "_LONGEST_SOCKET", 0)
    monkeypatch.setattr(home, "SOCKET_BYTES", 4096)
    return made


@pytest.fixture
def opened(tmp_path, short):
    return Home.open(tmp_path / "home")


@pytest.fixture
def owned(monkeypatch):
    """Makes a path look as if another user owned it."""
    foreign: set[str] = set()
    looked = {name: getattr(Path, name) for name in ("lstat", "stat")}

    def disguised(name):
        def look(self, **given):
            status = looked[name](self, **given)
            if str(self) not in foreign:
                return status
            fields = list(status)
            fields[stat.ST_UID] = SOMEBODY
            return os.stat_result(fields)

        return look

    for name in looked:
        monkeypatch.setattr(Path, name, disguised(name))
    return lambda path: foreign.add(str(path))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


# --- the home


@pytest.mark.parametrize("wide", [0o755, 0o750, 0o740, 0o704, 0o711, 0o701, 0o770, 0o777, 0o1777], ids=oct)
def test_a_home_that_others_may_read_or_write_is_refused_with_the_fix_and_left_as_it_is(tmp_path, short, wide):
    path = tmp_path / "a home's"
    path.mkdir()
    path.chmod(wide)

    with pytest.raises(HomeUnusable, match="other users may read it or write to it") as refused:
        Home.open(path)

    assert refused.value.fix == f"run: chmod 700 {shlex.quote(str(path))}"
    assert mode(path) == wide
    assert list(path.iterdir()) == list(short.iterdir()) == []
    path.chmod(0o700)
    assert Home.open(path).path == path


def test_a_home_of_another_user_is_refused(tmp_path, short, owned):
    Home.open(tmp_path / "home")
    owned(tmp_path / "home")

    with pytest.raises(HomeUnusable, match=f"belongs to uid {SOMEBODY}.*HOLDFAST_HOME"):
        Home.open(tmp_path / "home")


def test_a_home_and_all_above_it_that_is_missing_are_private_whatever_the_umask(tmp_path, short):
    before = os.umask(0)
    try:
        made = Home.open(tmp_path / "a" / "b" / "home")
        with made.lock("redis.lock"), made.open_log("ray.log"):
            made.write_file("ray-token", "secret")
    finally:
        os.umask(before)

    assert {mode(path) for path in (tmp_path / "a", tmp_path / "a" / "b", made.path, made.runtime)} == {0o700}
    assert {path.name: mode(path) for path in made.path.iterdir()} == dict.fromkeys(
        ["runtime", "runtime.lock", "redis.lock", "ray.log", "ray-token"], 0o600
    )


def test_nothing_of_the_home_is_ever_open_to_others_not_even_between_two_steps(tmp_path, short, monkeypatch):
    """A mode that is corrected after the file is made leaves a moment in which it can be opened."""
    monkeypatch.setattr(os, "chmod", lambda *_, **__: pytest.fail("a mode was corrected"))
    monkeypatch.setattr(Path, "chmod", lambda *_, **__: pytest.fail("a mode was corrected"))

    made = Home.open(tmp_path / "home")
    with made.open_log("redis.log") as log:
        log.write("x")

    assert mode(made.path / "redis.log") == 0o600


def test_a_log_that_somebody_made_a_link_is_not_followed(tmp_path, opened):
    (tmp_path / "target").touch()
    (opened.path / "ray.log").symlink_to(tmp_path / "target")

    with pytest.raises(OSError, match="symbolic links"):
        opened.open_log("ray.log")


# --- the way to it


def test_a_directory_above_the_home_that_others_may_write_to_is_refused(tmp_path, short):
    above = tmp_path / "shared" / "below"
    above.mkdir(parents=True)
    (tmp_path / "shared").chmod(0o777)

    with pytest.raises(HomeUnusable, match=r"others may write to .*shared above it.*chmod go-w"):
        Home.open(above / "home")

    (tmp_path / "shared").chmod(0o1777)  # as /tmp is: others cannot rename what is not theirs
    assert Home.open(above / "home").path == above / "home"


def test_a_directory_above_the_home_that_belongs_to_another_user_is_refused(tmp_path, short, owned):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs").chmod(0o1777)
    owned(tmp_path / "theirs")

    with pytest.raises(HomeUnusable, match=f"theirs above it belongs to uid {SOMEBODY}"):
        Home.open(tmp_path / "theirs" / "home")


@pytest.mark.parametrize("through_a_link", [False, True])
def test_a_missing_directory_that_somebody_else_makes_meanwhile_is_refused(tmp_path, short, owned, monkeypatch, through_a_link):
    base, real = tmp_path / "base", home.make_way

    def racing(directory):
        if through_a_link:
            (tmp_path / "trap").mkdir(mode=0o700)
            base.symlink_to(tmp_path / "trap")
        else:
            base.mkdir(mode=0o777)
        owned(base)
        real(directory)

    monkeypatch.setattr(home, "make_way", racing)
    with pytest.raises(HomeUnusable, match=f"{base} .*belongs to uid {SOMEBODY}"):
        Home.open(base / "holdfast")


def test_a_missing_directory_for_sockets_that_somebody_else_makes_meanwhile_is_not_used(tmp_path, short, owned, monkeypatch):
    session, real, looks = tmp_path / "session", home.check_way, []

    def racing(path, *more):
        real(path, *more)
        if path.parent == session and not session.exists():
            session.mkdir(mode=0o700)
            owned(session)
            looks.append(path)

    monkeypatch.setattr(home, "check_way", racing)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(session))
    runtime = Home.open(tmp_path / "home").runtime
    assert runtime.parent == Path("/tmp")
    runtime.rmdir()
    assert looks


def test_a_group_that_is_the_users_own_may_write_above_the_home(tmp_path, short, monkeypatch):
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(0o775)
    members = {"alone": [], "shared": ["somebody"], "gone": ["nobody-known"]}
    group = type("Group", (), {})()
    monkeypatch.setattr(private.pwd, "getpwall", list)
    monkeypatch.setattr(private.grp, "getgrgid", lambda _: group)

    def named(name):
        if name != "somebody":
            raise KeyError(name)
        return type("User", (), {"pw_uid": SOMEBODY})()

    monkeypatch.setattr(private.pwd, "getpwnam", named)
    for name in ("alone", "gone"):
        group.gr_mem = members[name]
        assert Home.open(above / "home").path == above / "home"
    group.gr_mem = members["shared"]
    with pytest.raises(HomeUnusable, match="others may write to"):
        Home.open(above / "home")
    group.gr_mem = []
    other = type("User", (), {"pw_uid": SOMEBODY, "pw_gid": above.stat().st_gid})()
    monkeypatch.setattr(private.pwd, "getpwall", lambda: [other])
    with pytest.raises(HomeUnusable, match="others may write to"):
        Home.open(above / "home")


def test_a_group_without_a_name_is_a_containers_own_if_this_process_is_in_it(tmp_path, short, monkeypatch):
    above = tmp_path / "volume"
    above.mkdir()
    above.chmod(0o2775)

    def unknown(gid):
        raise KeyError(gid)

    monkeypatch.setattr(private.pwd, "getpwall", list)
    monkeypatch.setattr(private.grp, "getgrgid", unknown)
    assert Home.open(above / "home").path == above / "home"
    monkeypatch.setattr(private.os, "getgid", lambda: SOMEBODY)
    monkeypatch.setattr(private.os, "getgroups", list)
    with pytest.raises(HomeUnusable, match="others may write to"):
        Home.open(above / "home")


def test_a_link_to_the_home_is_followed_unless_somebody_else_made_it_or_can_replace_it(tmp_path, short, owned):
    (tmp_path / "links").mkdir(mode=0o700)
    link = tmp_path / "links" / "link"
    link.symlink_to(Path("..") / "home")

    assert Home.open(link).path == tmp_path / "home"

    (tmp_path / "links").chmod(0o777)
    with pytest.raises(HomeUnusable, match=r"others may write to .*links"):
        Home.open(link)
    (tmp_path / "links").chmod(0o1777)
    owned(link)
    with pytest.raises(HomeUnusable, match=f"the symbolic link .*link on its way belongs to uid {SOMEBODY}"):
        Home.open(link)


def test_links_without_end_and_files_on_the_way_are_refused(tmp_path, short):
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    (tmp_path / "file").touch()

    for path in (tmp_path / "one", tmp_path / "one" / "home", tmp_path / "file", tmp_path / "file" / "home"):
        with pytest.raises(HomeUnusable, match="home"):
            Home.open(path)


# --- the runtime directory


def test_the_name_of_the_runtime_directory_cannot_be_known_before_it_is_made(tmp_path, short):
    names = set()
    for _ in range(2):
        made = Home.open(tmp_path / "home")
        names.add(made.runtime.name)
        assert Home.open(tmp_path / "home") == made  # it is remembered
        made.runtime.rmdir()
        (made.path / "runtime").unlink()

    assert len(names) == 2
    assert all(len(name.removeprefix("holdfast-")) == 8 for name in names)


def test_after_a_reboot_it_is_made_anew_under_its_name(opened, short):
    opened.runtime.rmdir()

    again = Home.open(opened.path)

    assert again == opened
    assert mode(again.runtime) == 0o700


@pytest.mark.parametrize("taken", ["directory", "link", "file"])
def test_one_that_somebody_else_has_taken_is_not_used_and_blocks_nothing(opened, short, owned, taken, tmp_path):
    opened.runtime.rmdir()
    if taken == "directory":
        opened.runtime.mkdir(mode=0o700)
    elif taken == "link":
        opened.runtime.symlink_to(tmp_path)
    else:
        opened.runtime.touch()
    owned(opened.runtime)

    another = Home.open(opened.path)

    assert another.runtime != opened.runtime
    assert another.runtime.parent == short
    assert (opened.path / "runtime").read_text() == f"{another.runtime}\n"
    assert Home.open(opened.path) == another
    with pytest.raises(HomeUnusable, match=r"somebody else has made it since.*start this process again"):
        opened.socket("redis.sock")
    assert another.socket("redis.sock") == another.runtime / "redis.sock"


def test_names_that_are_taken_are_passed_over(opened, short, monkeypatch):
    drawn = iter(["aaaaaaaa", "bbbbbbbb", "cccccccc"])
    monkeypatch.setattr(home.secrets, "token_hex", lambda _: next(drawn))
    (short / "holdfast-aaaaaaaa").mkdir()
    (short / "holdfast-bbbbbbbb").symlink_to("nowhere")
    opened.runtime.rmdir()
    (opened.path / "runtime").unlink()

    assert Home.open(opened.path).runtime.name == "holdfast-cccccccc"


def test_where_every_name_is_taken_the_error_says_so(opened, short, monkeypatch):
    monkeypatch.setattr(home, "_candidates", lambda: iter([short]))
    opened.runtime.rmdir()
    (opened.path / "runtime").unlink()

    with pytest.raises(HomeUnusable, match=r"no directory for its sockets can be made.*chmod 1777 /tmp"):
        Home.open(opened.path)


def test_one_that_others_may_enter_is_refused_at_every_use(opened):
    opened.runtime.chmod(0o755)

    for use in (lambda: Home.open(opened.path), lambda: opened.socket("redis.sock")):
        with pytest.raises(HomeUnusable, match=f"other users may enter it.*chmod 700 {opened.runtime}"):
            use()


def test_one_where_anybody_could_replace_it_is_neither_made_nor_used(opened, short):
    short.chmod(0o777)

    with pytest.raises(HomeUnusable, match=r"others may write to .*run above it"):
        Home.open(opened.path)
    (opened.path / "runtime").unlink()
    fallback = Home.open(opened.path)
    fallback.runtime.rmdir()
    assert fallback.runtime.parent == Path("/tmp")


# --- the log of its Redis


def test_the_log_of_redis_is_begun_anew_when_it_is_large_and_one_is_kept(opened):
    log, old = opened.path / "redis.log", opened.path / "redis.log.old"
    local_redis.bound_log(opened)
    log.write_text("x" * local_redis._LOG_BYTES)
    local_redis.bound_log(opened)
    assert not old.exists()

    log.write_text("y" * (local_redis._LOG_BYTES + 1))
    old.write_text("before")
    local_redis.bound_log(opened)

    assert not log.exists()
    assert old.read_text().startswith("yy")
