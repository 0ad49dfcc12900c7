"""The app of the conversations in flight: one agent without tools, so that a turn is one model call."""

from holdfast.agent import Agent, App

app = App(agents=[Agent(name="flight")])
