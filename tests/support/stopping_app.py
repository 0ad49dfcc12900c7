"""An app with agents whose turns stop."""

from rough_app import until_cancelled
from shop_app import lookup

from holdfast.agent import Agent, App, Stop

app = App(
    agents=[
        Agent(name="hasty", tools=[until_cancelled], stop=Stop(timeout_s=4)),
        Agent(name="talkative", tools=[until_cancelled], stop=Stop(timeout_s=4, then="last_words")),
        Agent(name="brief", tools=[lookup], stop=Stop(rounds=1, then="last_words")),
    ],
    env=["*_API_KEY", "*_API_BASE", "HOLDFAST_TEST_*"],
)
