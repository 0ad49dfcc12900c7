"""The app of the benchmark of the outbox: one agent, a webhook that answers and one that never does."""

import os

from benchmarks.bench_app import ask
from holdfast import Agent, App, NoticeKind, Webhook

URL = os.environ.get("BENCH_RECEIVER", "http://127.0.0.1:9")

app = App(
    agents=[Agent(name="bench", tools=[ask])],
    notify=[
        Webhook(f"{URL}/{name}", name=name, secret_env="BENCH_SECRET", events=list(NoticeKind), allow_private=True)  # noqa: S106 - its name
        for name in ("answers", "hangs")
    ],
    env=["BENCH_RECEIVER", "BENCH_SECRET"],
)
