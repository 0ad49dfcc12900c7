"""Names of a package that are imported at their first use, so that only users of a heavy module pay for it."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any


def offered(names: Mapping[str, Any]) -> list[str]:
    """The `__all__` of a package that offers all that it imports but modules; `names` are its globals."""
    return sorted(name for name, one in names.items() if name[0] != "_" and not isinstance(one, ModuleType))


def lazily(
    module: str, homes: Mapping[str, Sequence[str]], *, package: str | None = None, rest: tuple[str, str] | None = None
) -> Callable[[str], Any]:
    """The `__getattr__` of a module, which also gives `__all__` if the module has none.

    `homes` are the names of each module, by the module's dotted name below `package` (None: `module` itself). `rest` is a
    further such module and the name of a class in it, of which it defines subclasses: their names count, too.
    """
    package = package or module
    found = {name: home for home, names in homes.items() for name in names}

    def subclasses() -> list[str]:
        if rest is None:
            return []
        source = import_module(f"{package}.{rest[0]}")
        base = getattr(source, rest[1])
        own = [one for one in vars(source).values() if isinstance(one, type) and one.__module__ == source.__name__]
        return [one.__name__ for one in own if issubclass(one, base)]

    def imported(name: str) -> Any:
        if name == "__all__":
            return sorted({*found, *subclasses()})
        home = found.get(name) or (rest[0] if rest is not None and name in subclasses() else None)
        if home is None:
            message = f"module {module!r} has no attribute {name!r}"
            raise AttributeError(message)
        return getattr(import_module(f"{package}.{home}"), name)

    return imported
