"""Names of a package that are imported at their first use, so that only users of a heavy module pay for it."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazily(
    module: str, homes: Mapping[str, Sequence[str]], *, package: str | None = None, others: tuple[str, Sequence[str]] = ("", ())
) -> Callable[[str], Any]:
    """The `__getattr__` of a module.

    `homes` are the names of each module, by the module's dotted name below `package` (None: `module` itself); `others` are a
    further such module and names, of which those without a home are its own.
    """
    found = dict.fromkeys(others[1], others[0]) | {name: home for home, names in homes.items() for name in names}

    def imported(name: str) -> Any:
        if name not in found:
            message = f"module {module!r} has no attribute {name!r}"
            raise AttributeError(message)
        return getattr(import_module(f"{package or module}.{found[name]}"), name)

    return imported
