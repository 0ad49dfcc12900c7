"""The app of the benchmark of delegation: an agent that asks another one, and a webhook that hears of reminders only."""

import os

from holdfast import Agent, App, NoticeKind, Webhook, delegate

URL = os.environ.get("BENCH_RECEIVER", "http://127.0.0.1:9")

clerk = Agent(name="clerk")
boss = Agent(name="boss", tools=[delegate(clerk, name="consult")])
app = App(
    agents=[boss, clerk],
    notify=[
        Webhook(
            f"{URL}/hangs",
            name="hangs",
            secret_env="BENCH_SECRET",  # noqa: S106 - its name
            events=[NoticeKind.REMINDED],
            allow_private=True,
        )
    ],
    env=["BENCH_RECEIVER", "BENCH_SECRET"],
)
