"""Where the link to sign in is said."""

import sys

from holdfast.cli import serve
from holdfast.cli.options import Where

LINK = "http://127.0.0.1:8484/signin/secret"


def test_a_terminal_shows_the_link_itself(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with serve.link_told(LINK, Where()) as line:
        assert LINK in line


def test_elsewhere_the_link_is_in_a_private_file_while_the_server_runs(tmp_path):
    home = tmp_path / "home"
    with serve.link_told(LINK, Where(home=str(home))) as line:
        assert "secret" not in line
        kept = home / "sign-in-127.0.0.1-8484"
        assert str(kept) in line
        assert kept.read_text() == f"{LINK}\n"
        assert (kept.stat().st_mode & 0o777, home.stat().st_mode & 0o777) == (0o600, 0o700)
    assert not kept.exists()


def test_without_a_private_place_there_is_no_link_and_the_line_says_so(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    with serve.link_told(LINK, Where(home=str(home))) as line:
        assert "secret" not in line
        assert "start it on a terminal" in line
    assert list(home.iterdir()) == []
