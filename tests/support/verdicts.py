"""What rules say of a call, for tests: the value of a tool's primary argument, which is named `text`, may stand by itself."""

from holdfast.agent.coverage import Covered, Inspected, Shells
from holdfast.agent.rule import RuleEffect
from holdfast.agent.rules import Rules


def effect(rules, tool, primary=None, **arguments):
    """What rules say of a call."""
    found = arguments if primary is None else arguments | {"text": primary}
    return rules.verdict(tool, found, primary="text").effect


def allows(pattern, tool, primary=None, **arguments):
    """Whether a rule that allows covers a call."""
    return effect(Rules(allow=[pattern], default="deny"), tool, primary, **arguments) is RuleEffect.ALLOW


def denies(pattern, tool, primary=None, **arguments):
    """Whether a rule that denies covers a call."""
    return effect(Rules(deny=[pattern]), tool, primary, **arguments) is RuleEffect.DENY


def asks(pattern, tool, primary=None, **arguments):
    """Whether a rule that denies has a person asked, since it cannot be told whether it covers a call."""
    return effect(Rules(deny=[pattern], default="allow"), tool, primary, **arguments) is RuleEffect.ASK


def covers(pattern, tool, arguments, primary=None):
    """Whether a pattern covers a call beyond doubt."""
    return Inspected(tool, arguments, primary, shells=Shells.of([pattern])).is_covered(pattern)


def may_cover(pattern, tool, arguments, primary=None):
    """Whether a pattern covers a call in some way in which it may be read."""
    return Inspected(tool, arguments, primary, shells=Shells.of([pattern])).may_be_covered(pattern) is Covered.YES
