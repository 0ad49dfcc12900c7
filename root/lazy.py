"""Names of a package that are imported at their first use, so that only users of a heavy module pay for it."""

import ast
import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any


def offered(names: Mapping[str, Any]) -> list[str]:
    """The `__all__` of a package that offers all that it imports but modules; `names` are its globals."""
    return sorted(name for name, one in names.items() if name[0] != "_" and not isinstance(one, ModuleType))


def lazily(
    module: str, homes: Mapping[str, Sequence[str]] | None = None, *, family: tuple[str, str] | None = None
) -> Callable[[str], Any]:
    """The `__getattr__` of a module, which also gives `__all__` if the module has none.

    `homes` are the names of each module below it. Without them, they are read from the module's source: each `from home import
    Name as Name` that it has for type checkers. `family` is a further module and the name of a class in it, of which it defines
    subclasses: their names count, too.
    """

    @cache
    def found() -> dict[str, str]:
        if homes is not None:
            return {name: f".{home}" for home, names in homes.items() for name in names}
        within = vars(sys.modules[module])
        source = "".join(linecache.getlines(within["__file__"], within))
        nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
        written = {one.name: "." * node.level + (node.module or "") for node in nodes for one in node.names if one.asname}
        if family is None:
            return written
        home = import_module(family[0])
        classes = [one for one in vars(home).values() if isinstance(one, type) and one.__module__ == family[0]]
        return written | {one.__name__: family[0] for one in classes if issubclass(one, getattr(home, family[1]))}

    def imported(name: str) -> Any:
        if name == "__all__":
            return sorted(found())
        if name not in found():
            message = f"module {module!r} has no attribute {name!r}"
            raise AttributeError(message)
        return getattr(import_module(found()[name], module), name)

    return imported
