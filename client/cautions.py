"""Warnings of a client: what holds less than promised, and goes on all the same."""


class DurabilityWarning(UserWarning):
    """The Redis in use may lose what was acknowledged; the message says in which case. `holdfast doctor` says the fix."""


class AppDiffersWarning(UserWarning):
    """The app that was named is published otherwise than it is here; conversations run with what is published.

    The message says in what it differs. `holdfast up --app` or `connect(publish=True)` publishes it as it is here.
    """
