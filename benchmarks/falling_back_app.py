"""The app of the benchmark of fallbacks: a model alone, and the same one behind a model that is down."""

import os

from holdfast.agent import Agent, App, Breaker, Model

UP = Model("openai/stub", {"api_base": os.environ.get("BENCH_UP", "")})
DOWN = Model(
    "openai/down",
    {"api_base": os.environ.get("BENCH_DOWN", "")},
    retries=0,
    fallbacks=[UP],
    breaker=Breaker(failures=1, cooldown_s=3600),
)

app = App(agents=[Agent(name="alone", model=UP), Agent(name="behind", model=DOWN)])
