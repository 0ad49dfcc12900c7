"""Imports point one way, and each outside library is imported where it belongs: read from the source, of every package."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOM = "root"
"""The folder of `holdfast` itself: the doors, and what all packages share."""
DOORS = (ROOT / ROOM / "__init__.py", ROOT / ROOM / "events.py")
BELOW = {
    ROOM: set(),
    "conversation": {ROOM},
    "agent": {ROOM, "conversation"},
    "persistence": {ROOM, "conversation"},
    "embedded": {ROOM},
    "actors": {ROOM, "conversation", "agent", "persistence"},
    "registry": {ROOM, "conversation", "agent", "persistence", "embedded", "actors"},
    "client": {ROOM, "conversation", "agent", "persistence", "embedded", "actors", "registry"},
    "server": {ROOM, "conversation", "client"},
    "cli": {ROOM, "conversation", "agent", "persistence", "embedded", "actors", "registry", "client", "server"},
    "testing": {ROOM, "conversation", "agent", "persistence", "embedded", "actors", "registry", "client", "server", "cli"},
}
"""Of each package, those that it may import."""

ROOMS = ("text", "terms", "records", "log", "judging")
"""The rooms of the core. Each may import those before it, and what stands beside the rooms."""

OUTSIDE = {
    "ray": ("actors/", "registry/", "client/transport.py"),
    "redis": ("persistence/", "embedded/local_redis.py"),
    "psutil": ("embedded/", "actors/memory.py", "cli/demo.py"),
    "litellm": ("actors/worker/model.py",),
    "httpx": (
        "actors/worker/provider_stream.py",
        "client/http_",
        "server/tokens.py",
        "server/discovery.py",
        "server/code_flow.py",
    ),
    "idna": ("agent/hosts.py",),
    "joserfc": ("server/",),
    "starlette": ("server/",),
    "uvicorn": ("server/listening.py", "server/connections.py"),
    "typer": ("cli/",),
    "rich": ("cli/",),
    "textual": ("cli/inbox/",),
    "msgpack": ("persistence/codec.py",),
    "yaml": ("agent/rules_file.py",),
    "tree_sitter": ("agent/grammar.py",),
    "tree_sitter_bash": ("agent/grammar.py",),
    "opentelemetry": ("root/traces.py", "actors/"),
    "aiohttp": ("testing/model_server.py", "actors/worker/notify/outgoing.py"),
    "pytest": ("testing/",),
}
"""Where each library may be imported: folders, and single files."""

IMPURE = {
    *(
        "asyncio",
        "concurrent",
        "contextvars",
        "datetime",
        "getpass",
        "http",
        "io",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
    ),
    *("platform", "queue", "random", "secrets", "select", "shutil", "signal", "socket", "subprocess", "sys", "tempfile"),
    *("threading", "time", "urllib", "uuid"),
}
"""What the core must not see: I/O, clocks, randomness, the process it runs in."""


def modules() -> list[Path]:
    """Every module of every package."""
    return sorted(file for package in BELOW for file in (ROOT / package).rglob("*.py"))


def package_of(file: Path) -> list[str]:
    """The package that a file belongs to."""
    folders = file.relative_to(ROOT).parts[:-1]
    return ["holdfast", *folders[folders[0] == ROOM :]]


def folder_of(name: str) -> str:
    """The folder that has what an absolute name of ours leads to."""
    part = name.split(".")[1]
    return part if part in BELOW else ROOM


@cache
def imported(file: Path) -> frozenset[str]:
    """The absolute names of what a file imports, anywhere in it, also by `import_module` with a literal name."""
    return frozenset(_imported(file))


def _imported(file: Path) -> Iterator[str]:
    package = package_of(file)
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package[: len(package) - level + 1] if level else []
                origin = ".".join([*base, *([module] if module else [])])
                yield from (f"{origin}.{alias.name}" for alias in names)
            case ast.Call(func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"), args=[name, *_]):
                if isinstance(name, ast.Constant) and not name.value.startswith("."):
                    yield name.value


def test_every_package_of_the_project_is_under_the_rule():
    assert {file.parent.name for file in ROOT.glob("*/py.typed")} == set(BELOW)


@pytest.mark.parametrize("package", BELOW)
def test_a_package_imports_only_what_stands_below_it(package):
    allowed = BELOW[package] | {package}
    for file in (ROOT / package).rglob("*.py"):
        names = imported(file)
        used = {folder_of(name) for name in names if name.startswith("holdfast.")}
        if file in DOORS:
            used = {ROOM}  # it leads to all of them, when somebody goes through
        if package == "cli" and file.name.startswith("demo"):
            used -= {"testing"}  # the demo plays the model
        assert used <= allowed, f"{file.relative_to(ROOT)} imports {sorted(used - allowed)}"


def module_of(name: str) -> Path | None:
    """The file that an absolute name of ours leads to: a module, or the module that has the name."""
    parts = name.split(".")[1:]
    for length in range(len(parts), 0, -1):
        for base in (ROOT, ROOT / ROOM):
            path = base.joinpath(*parts[:length])
            for file in (path.with_suffix(".py"), path / "__init__.py"):
                if file.is_file() and (base != ROOT or parts[0] in BELOW):
                    return file
    return None


def circles(arrows: dict[str, set[str]]) -> list[set[str]]:
    """The sets of nodes from which arrows lead back to themselves: of each node, those that it reaches and that reach it."""

    def reached(start: str) -> set[str]:
        found, waiting = set(), [start]
        while waiting:
            fresh = arrows.get(waiting.pop(), set()) - found
            found |= fresh
            waiting += fresh
        return found

    far = {node: reached(node) for node in arrows}
    return [{other for other in far[node] if node in far.get(other, ())} for node in far if node in far[node]]


def test_no_files_import_each_other_in_a_circle():
    """Imports inside of functions and for types alone count as well."""
    arrows = {}
    for file in set(modules()) - {*DOORS}:
        found = {module_of(name) for name in imported(file) if name.startswith("holdfast.")} - {None, file, *DOORS}
        arrows[str(file.relative_to(ROOT))] = {str(one.relative_to(ROOT)) for one in found if one.name != "__init__.py"}
    assert list(circles(arrows)) == []


def test_the_rooms_of_the_core_import_only_rooms_before_them():
    rooms = {file.parent.name for file in (ROOT / "conversation").glob("*/__init__.py")}
    assert rooms <= set(ROOMS)
    for file in (ROOT / "conversation").glob("*/*.py"):
        allowed = ROOMS[: ROOMS.index(file.parent.name) + 1]
        names = {name.split(".")[2] for name in imported(file) if name.startswith("holdfast.conversation.")}
        assert names & rooms <= set(allowed), f"{file.relative_to(ROOT)} imports {sorted(names & rooms - set(allowed))}"


@pytest.mark.parametrize("library", OUTSIDE)
def test_a_library_is_imported_only_where_it_belongs(library):
    for file in modules():
        name = str(file.relative_to(ROOT))
        if any(module.split(".")[0] == library for module in imported(file)):
            assert name.startswith(OUTSIDE[library]), f"{name} imports {library}"


def test_the_core_has_no_io_no_clock_and_no_randomness():
    for file in (ROOT / "conversation").rglob("*.py"):
        impure = {name for name in imported(file) if name.split(".")[0] in IMPURE}
        assert not impure, f"{file.relative_to(ROOT)} imports {sorted(impure)}"
        called = {node.func.id for node in ast.walk(ast.parse(file.read_text())) if _is_call_by_name(node)}
        assert not called & {"open", "print", "input", "exec", "eval"}, file.name


def _is_call_by_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def test_what_a_reader_imports_at_once_is_neither_ray_nor_litellm():
    """From `holdfast pending` on."""
    reader = ["cli/__init__.py", "cli/app.py", "cli/pending.py", "client/async_client.py", "registry/__init__.py"]
    assert "client/connecting.py" in _light([*reader, "persistence/redis_store.py"])


def test_what_a_rehearsal_imports_at_once_is_neither_ray_nor_litellm():
    """From `holdfast.testing.run` and the plugin of pytest on."""
    rehearsal = ["testing/__init__.py", "testing/pytest_plugin.py", "testing/blocking_rehearsal.py"]
    wanted = {"actors/activation/activation.py", "actors/worker/tool_run.py", "conversation/judging/machine.py"}
    assert wanted <= _light(rehearsal)


def test_what_the_server_imports_at_once_is_neither_ray_nor_litellm():
    """From `holdfast.server` on."""
    assert {"server/app.py", "server/streams.py", "client/async_client.py"} <= _light(["server/__init__.py"])


def _light(waiting: list[str]) -> set[str]:
    """The files that are imported with these, along the imports that run when a module is imported; none is a heavy one."""
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or not (ROOT / name).is_file():
            continue
        seen.add(name)
        for module in _at_import(ROOT / name):
            top, _, rest = module.partition(".")
            assert top not in {"ray", "litellm", "tree_sitter", "tree_sitter_bash"}, f"{name} imports {module} at once"
            if top == "holdfast" and rest:
                parts = [ROOM, *rest.split(".")] if folder_of(module) == ROOM else rest.split(".")
                for length in range(1, len(parts) + 1):
                    path = "/".join(parts[:length])
                    waiting += [f"{path}.py", f"{path}/__init__.py"]
    return seen


def _at_import(file: Path) -> Iterator[str]:
    """What a module imports when it is imported: outside of functions and of `if TYPE_CHECKING`."""
    tree = ast.parse(file.read_text())
    later = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _checks_types(node)
        for inner in ast.walk(node)
    }
    package = package_of(file)
    for node in ast.walk(tree):
        if node in later:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def _checks_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
