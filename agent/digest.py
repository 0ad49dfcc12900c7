"""A digest of the app's own code, so that an edited tool is noticed."""

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from .app import App
from .path import MAIN, WORKER_MAIN, load, module_of

_INSTALLED = {"site-packages", "dist-packages"}


def code_digest(path: str, *, main_file: str | None = None) -> str:
    """The SHA-256, in hexadecimal, of the app's own source files as they are on disk now.

    These are the app's module, the modules of its tools, and all that their import statements lead to in the directories they
    are imported from, except the standard library, packages in site-packages, and Holdfast. Other imports of this process do
    not matter, so two processes agree.

    Args:
        path: The app's import path, as in `load`.
        main_file: As in `load`.
    """
    app = load(path, main_file=main_file)
    roots = [module_of(path, main_file=main_file), *_modules_of_tools(app)]
    files: dict[str, Path] = {}
    for root in roots:
        file = _file(root)
        if file is not None and (root is roots[0] or not _foreign(root.__name__, file, owner=None)):
            _collect(_name(root), file, _directory(root, file), files)
    digest = hashlib.sha256()
    for name, file in sorted(files.items()):
        digest.update(f"{name}\0{hashlib.sha256(_content(file)).hexdigest()}\n".encode())
    return digest.hexdigest()


def _modules_of_tools(app: App) -> list[ModuleType]:
    functions = [tool.callback for agent in app.agents for tool in agent.tools if tool.callback is not None]
    names = dict.fromkeys(getattr(function, "__module__", None) for function in functions)
    return [sys.modules[name] for name in names if name is not None and name in sys.modules]


def _collect(name: str, file: Path, directory: Path, files: dict[str, Path]) -> None:
    owner = name.partition(".")[0]
    waiting = [(name, file)]
    while waiting:
        name, file = waiting.pop()
        if name in files:
            continue
        files[name] = file
        for imported in _imports(_content(file), name, is_package=file.name == "__init__.py"):
            parts = imported.split(".")
            for length in range(1, len(parts) + 1):  # importing a.b.c runs a and a.b too
                found = _source(directory, parts[:length])
                parent = ".".join(parts[:length])
                if found is not None and not _foreign(parent, found, owner=owner):
                    waiting.append((parent, found))


def _imports(source: bytes, name: str, *, is_package: bool) -> Iterator[str]:
    """The dotted names that a module may import, at any place in it; `from a import b` may mean a.b."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # the file is being edited; its content still counts
    package = name.split(".") if is_package else name.split(".")[:-1]
    yield ".".join(package)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *filter(None, [node.module])])
            yield from (f"{origin}.{alias.name}".strip(".") for alias in node.names)


def _source(directory: Path, parts: list[str]) -> Path | None:
    if not all(parts):
        return None
    stem = directory.joinpath(*parts)
    return next((file for file in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")) if file.is_file()), None)


def _foreign(name: str, file: Path, *, owner: str | None) -> bool:
    """Whether a module is not the app's own code; an installed app (`owner`) owns its top-level package."""
    top = name.partition(".")[0]
    if top in ("holdfast", owner):
        return top == "holdfast"
    libraries = (Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib"))
    return bool(_INSTALLED & set(file.parts)) or any(file.resolve().is_relative_to(library) for library in libraries)


def _name(module: ModuleType) -> str:
    """The module's name, which is the same in a worker and in the process that runs it as a script."""
    return MAIN if module.__name__ == WORKER_MAIN else module.__name__


def _file(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    return Path(file).resolve() if _name(module) == MAIN else Path(file).absolute()  # Python resolves a script's links


def _directory(module: ModuleType, file: Path) -> Path:
    depth = len(module.__name__.split(".")) + (file.name == "__init__.py")
    return file.parents[min(depth, len(file.parents)) - 1]


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
