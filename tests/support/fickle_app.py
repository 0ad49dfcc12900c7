"""An app that cannot be imported while somebody has put a file there."""

import os
from pathlib import Path

from holdfast.agent import Agent, App

if (Path(os.environ.get("HOLDFAST_TEST_RUNS", "/nonexistent")) / "fickle.broken").exists():
    message = "the app is broken"
    raise RuntimeError(message)

app = App(agents=[Agent(name="fickle")], env=["*_API_KEY", "*_API_BASE", "HOLDFAST_TEST_*"])
