"""The checks of `holdfast doctor` on the home of the embedded stack."""

from holdfast.embedded.home import Home, installed_version, python_version
from holdfast.embedded.server_binary import server_for
from holdfast.errors import InvalidInput
from holdfast.settings import Settings

from .check import Check, fail, ok, warn


def home_checks(settings: Settings) -> tuple[Home | None, list[Check]]:
    """The home, None if it cannot be used, and its checks."""
    try:
        home = Home.open(settings.home)
        home.socket("redis.sock")
        record = home.record()
    except InvalidInput as error:
        return None, [fail("home", f"{error.field}: {error.problem}", error.fix)]
    if record is None:
        return home, [ok("home", f"{home.path}: nothing was ever started in it")]
    mine = (installed_version("holdfast"), installed_version("ray"), python_version())
    theirs = (record.holdfast_version, record.ray_version, record.python_version)
    said = f"{home.path}: data of {record.server} {record.server_version}"
    if mine == theirs:
        return home, [ok("home", said)]
    them, me = (f"Holdfast {found[0]}, Ray {found[1]}, Python {found[2]}" for found in (theirs, mine))
    fix = "run holdfast down before the first start with other versions; the data stays"
    return home, [warn("home", f"{said}, last started by {them}; this is {me}", fix)]


def server_check(home: Home) -> Check:
    """The check of the Redis server that would be started in the home."""
    try:
        binary, version = server_for(home)
        return ok("redis server", f"{version.name} {version.text} ({binary})")
    except InvalidInput as error:
        return fail("redis server", error.problem, error.fix)
