"""What rules say of a call, for tests: the value of a tool's primary argument, which is named `text`, may stand by itself."""

from holdfast.agent.rule import Effect
from holdfast.agent.rules import Rules


def effect(rules, tool, primary=None, **arguments):
    """What rules say of a call."""
    found = arguments if primary is None else arguments | {"text": primary}
    return rules.verdict(tool, found, primary="text").effect


def allows(pattern, tool, primary=None, **arguments):
    """Whether a rule that allows covers a call."""
    return effect(Rules(allow=[pattern], default="deny"), tool, primary, **arguments) is Effect.ALLOW


def denies(pattern, tool, primary=None, **arguments):
    """Whether a rule that denies covers a call."""
    return effect(Rules(deny=[pattern]), tool, primary, **arguments) is Effect.DENY
