"""The import path of an app, `package.module:app`: from a path to its `App`, and back."""

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from holdfast.errors import AppNotFound, ConfigurationError
from holdfast.redaction import PLAIN

from .app import App

MAIN = "__main__"
WORKER_MAIN = "__holdfast_main__"
_FIELD = "app"
_SYNTAX = 'write "package.module:app", as you would import it'


def load(path: str, *, main_file: str | None = None) -> App:
    """The app that an import path leads to; the current directory is searched for modules last.

    Args:
        path: `package.module:app`; `:app` may be left out. `__main__:app` is the running script.
        main_file: The script's file, in another process than the script's. It is loaded as a module of another name, so that
            code under `if __name__ == "__main__"` does not run.

    Raises:
        AppNotFound: The path is ill-formed, does not import, or leads to no `App`; the module's own error is its cause.
        ConfigurationError: The module declares a tool, an agent or the app wrongly.
    """
    module_name, attribute = split(path)
    module = module_of(path, main_file=main_file)
    found = vars(module).get(attribute)
    if isinstance(found, App):
        return found
    apps = [f"{module_name}:{name}" for name, value in vars(module).items() if isinstance(value, App)]
    fix = f"use {' or '.join(repr(name) for name in apps)}" if apps else f"put `{attribute} = App(agents=[...])` there"
    elsewhere = _elsewhere(module_name, module)
    if attribute not in vars(module):
        raise AppNotFound(_FIELD, f"module {module_name!r} has no attribute {attribute!r}{elsewhere}", fix)
    raise AppNotFound(_FIELD, f"{path!r} is {type(found).__name__}, not an App{elsewhere}", fix)


def split(path: str) -> tuple[str, str]:
    """The module and the attribute of an import path."""
    if not isinstance(path, str):
        raise AppNotFound(_FIELD, f"{type(path).__name__} is no import path", _SYNTAX)
    module, colon, attribute = path.partition(":")
    if module.endswith(".py") or "/" in module:
        dotted = module.removesuffix(".py").strip("./").replace("/", ".")
        instead = f"{dotted}:{attribute or 'app'}"
        raise AppNotFound(_FIELD, f"{path!r} is a file, not an import path", f"write {instead!r}")
    attribute = attribute if colon else "app"
    if not attribute.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise AppNotFound(_FIELD, f"{path!r} is no import path", _SYNTAX)
    return module, attribute


def module_of(path: str, *, main_file: str | None = None) -> ModuleType:
    """The module of an import path, imported if necessary; arguments and errors are those of `load`."""
    name, _ = split(path)
    if name == MAIN or name not in sys.modules:
        here = _here()
        if here is not None and str(here) not in python_path():
            sys.path.append(str(here))  # a file here must not shadow an installed package
        importlib.invalidate_caches()  # the file may be new
    try:
        if name == MAIN:
            return sys.modules[MAIN] if main_file is None else _script(Path(main_file).resolve())
        return importlib.import_module(name)
    except ConfigurationError:
        raise  # it describes the fault better than an error about the path
    except (Exception, SystemExit) as error:  # noqa: BLE001 - importing runs the user's code
        _refuse(name, error)


def main_file(path: str) -> str | None:
    """The file of the running script if the path is `__main__:...`, for `load` in another process; else None.

    Raises:
        AppNotFound: The running script is no file (a prompt, a notebook, `python -c`), or a module with a name (`python -m`).
    """
    module, attribute = split(path)
    if module != MAIN:
        return None
    if _importable(MAIN) != MAIN:
        fix = f"use {f'{_importable(MAIN)}:{attribute}'!r}"
        raise AppNotFound(_FIELD, "the script runs as a module, and its own imports need that module's name", fix)
    file = getattr(sys.modules[MAIN], "__file__", None)
    if not isinstance(file, str) or not Path(file).is_file():
        problem = "the app is declared at a prompt, in a notebook or in `python -c`, where workers cannot import it"
        raise AppNotFound(_FIELD, problem, "move it into a module, and import it from there")
    return str(Path(file).resolve())


def path_of(app: App) -> str:
    """The import path of an app: the global that holds it, preferably in the module that constructed it.

    Raises:
        ConfigurationError: The value is no `App`, or no loaded module has the app as a global, so no worker could find it.
    """
    if not isinstance(app, App):
        raise ConfigurationError(_FIELD, f"{type(app).__name__} is not an App", "give an App, or its import path")
    others = sorted((name for name in sys.modules if name != app.module), key=lambda name: (name == MAIN, name))
    if (found := next(_globals(app, [app.module, *others]), None)) is not None:
        return found
    problem = "the App is no global of a module, so a worker could not find it by an import path"
    raise ConfigurationError(_FIELD, problem, "assign it at the top level of a module: `app = App(...)`")


def cipher_path(app: App) -> str | None:
    """The import path of an app's cipher; None without a cipher.

    If several modules have the cipher as a global, its own module is preferred, then one that does not declare the app: every
    process that opens the store imports that module.

    Raises:
        ConfigurationError: No importable module has the cipher as a global.
    """
    cipher = app.encrypt
    if cipher is None or isinstance(cipher, str):
        return cipher
    own = type(cipher).__module__
    names = sorted(sys.modules, key=lambda name: (name == MAIN, name != own, name == app.module, name))
    found = next(_globals(cipher, [name for name in names if _importable(name) != MAIN]), None)
    if found is None:
        problem = "it is no global of a module that other processes can import"
        fix = "assign it at the top level of a module of its own, and import it from there"
        raise ConfigurationError("app.encrypt", problem, fix)
    return found


def _globals(wanted: object, modules: Sequence[str]) -> Iterator[str]:
    for name in modules:
        for attribute, value in list(getattr(sys.modules.get(name), "__dict__", {}).items()):
            if value is wanted and attribute.isidentifier():
                yield f"{_importable(name)}:{attribute}"


def python_path() -> list[str]:
    """This process's import directories and archives, absolute, in order; a worker with them finds the same modules."""
    here = _here()
    entries = [Path(entry) if here is None else here / entry for entry in sys.path]  # "" is the current directory
    return list(dict.fromkeys(os.path.normpath(entry) for entry in entries if entry.is_absolute() and entry.exists()))


def _here() -> Path | None:
    try:
        return Path.cwd()
    except FileNotFoundError:  # a background worker outlives the directory that it was started in
        return None


def placed(theirs: Sequence[str], mine: Sequence[str]) -> list[str]:
    """This process's search path, extended by another's entries in their order.

    Entries before the first shared one come first; the others, such as a directory that is searched last, come last.
    """
    first = next((place for place, entry in enumerate(theirs) if entry in mine), len(theirs))
    return [*theirs[:first], *mine, *(entry for entry in theirs[first:] if entry not in mine)]


def _elsewhere(name: str, module: ModuleType) -> str:
    """A hint for a user who meant a module of the current directory and got an installed one of the same name."""
    here, file = _here(), getattr(module, "__file__", None)
    if here is None or file is None or Path(file).is_relative_to(here):
        return ""
    meant = here / name.partition(".")[0]
    return f" (it is {file}, not what lies in this directory)" if meant.is_dir() or meant.with_suffix(".py").is_file() else ""


def _script(file: Path) -> ModuleType:
    known = sys.modules.get(WORKER_MAIN)
    if known is not None and known.__file__ == str(file):
        return known
    if str(file.parent) not in python_path():
        sys.path.insert(0, str(file.parent))  # as Python does for a script that it runs
    loader = importlib.machinery.SourceFileLoader(WORKER_MAIN, str(file))
    spec = importlib.util.spec_from_loader(WORKER_MAIN, loader)
    assert spec is not None  # noqa: S101 - a source loader always has one
    module = importlib.util.module_from_spec(spec)
    sys.modules[WORKER_MAIN] = module  # pydantic and typing look names up here while the script runs
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[WORKER_MAIN]
        raise
    return module


def _importable(module_name: str) -> str:
    """The name by which other processes import a module; under `python -m package.module` the script has one too."""
    spec = getattr(sys.modules[MAIN], "__spec__", None) if module_name == MAIN else None
    return module_name if spec is None or spec.name is None else str(spec.name)


def _refuse(name: str, error: BaseException) -> NoReturn:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is not None and (name == missing or name.startswith(f"{missing}.")):
        fix = f"start it from the directory that holds {name.partition('.')[0]!r}, or add that to PYTHONPATH"
        raise AppNotFound(_FIELD, f"there is no module {missing!r}", fix) from error
    problem = f"module {name!r} does not import ({PLAIN.said(error)})"
    raise AppNotFound(_FIELD, problem, "correct the module; its error is the cause of this one") from error
