"""An app with agents whose turns stop."""

from rough_app import until_cancelled
from shop_app import lookup

from holdfast.agent import Agent, App, Stop, TurnStats


def wanders(stats: TurnStats) -> str | None:
    """End a turn that has used many tokens for little money."""
    return f"{stats.tokens} tokens for {stats.cost_usd:.2f} USD" if stats.tokens > 1_000_000 and stats.cost_usd < 0.2 else None


def breaks(stats: TurnStats) -> None:
    """Fail on what it was not made for."""
    if stats.text == "Break it.":
        raise LookupError(stats.text)


app = App(
    agents=[
        Agent(name="hasty", tools=[until_cancelled], stop=Stop(timeout_s=4)),
        Agent(name="talkative", tools=[until_cancelled], stop=Stop(timeout_s=4, then="last_words")),
        Agent(name="brief", tools=[lookup], stop=Stop(rounds=1, then="last_words")),
        Agent(name="judged", tools=[lookup], stop=Stop(cost_usd=0.4, content="(?i)no idea", when=[wanders, breaks])),
        Agent(name="careful", tools=[lookup], stop=Stop(rounds=1, then="ask")),
    ],
    env=["*_API_KEY", "*_API_BASE", "HOLDFAST_TEST_*"],
)
