"""A copy of the tree in which modules are changed, on the import path before whatever is installed."""

import os
import shutil
import signal
import subprocess
import tomllib
from pathlib import Path

LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "docs", "benchmarks", "peers")


class Tree:
    """The copy. The project itself is never written to."""

    def __init__(self, root, folder):
        self.root = Path(folder) / "tree"
        shutil.copytree(root, self.root, ignore=LEFT_OUT)
        self._compiled = Path(folder) / "compiled"
        mapped = Path(folder) / "mapped"
        packages = tomllib.loads((self.root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
        for package, where in packages.items():
            place = mapped.joinpath(*package.split("."))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(self.root / where)
        self._environment = os.environ | {
            "PYTHONPATH": os.pathsep.join((str(mapped), str(self.root / "tests/mutation/plugin"))),
            "PYTHONPYCACHEPREFIX": str(self._compiled),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "CI": "",
        }

    def write(self, path, source):
        """Put this text in a module's place; what was compiled of it is forgotten, since it may be as long and as old."""
        (self.root / path).write_text(source)
        for stale in self._compiled.rglob(f"{Path(path).stem}.*.pyc"):
            stale.unlink()

    def run(self, command, timeout_s):
        """The exit code and the end of the output of a command in the copy; None for the code if it took too long."""
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return None, output
        return process.returncode, output
