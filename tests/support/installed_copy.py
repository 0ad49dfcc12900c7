"""A copy of the installed product, as another image would have it."""

import shutil
from importlib.util import find_spec
from pathlib import Path

from holdfast.actors import build


def installed_at(folder: Path) -> Path:
    """The folder, with a copy of what runs in actors."""
    for package in build.PACKAGES:
        source = Path(find_spec(package).origin).parent
        shutil.copytree(source, folder.joinpath(*package.split(".")), ignore=_left_out(package), dirs_exist_ok=True)
    return folder


def _left_out(package):
    """What is not copied of a package's folder: where the product is installed, the root has all packages in it."""
    return lambda at, names: [
        name for name in names if name == "__pycache__" or (package == build.ROOT and Path(at, name).is_dir())
    ]
