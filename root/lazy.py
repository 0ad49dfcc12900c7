"""Names of a package that are imported at their first use, so that only users of a heavy module pay for it."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package; `homes` are the names of each module, by the module's dotted name below the package."""
    modules = {name: module for module, names in homes.items() for name in names}

    def imported(name: str) -> Any:
        if name not in modules:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return imported
