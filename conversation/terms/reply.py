"""The built-in call that gives a turn's reply in the shape that its agent declares."""

FINAL_ANSWER = "final_answer"
"""The name of the built-in call. It never runs: its arguments are the reply."""
DESCRIPTION = (
    "Give your final answer, in place of a text: it ends your turn. Call this once, and no other tool beside it, when nothing "
    "else is left to do."
)
MOST_REPAIRS = 2
"""How often a turn asks its model again for a reply that fits."""
MISFIT = (
    f"this is not your final answer yet: {{}}. Give it again, as one JSON object that fits the schema and without any other "
    f"words; if there is a tool {FINAL_ANSWER}, by a call of it"
)
"""What the model is told of a reply that does not fit."""
