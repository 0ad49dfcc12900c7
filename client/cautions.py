"""Warnings of a client: a guarantee that does not hold as promised here, although the client goes on."""


class DurabilityWarning(UserWarning):
    """The Redis in use may lose acknowledged events; the message says in which case, and `holdfast doctor` says the fix."""


class AppDiffersWarning(UserWarning):
    """The published version of the client's app differs from the app here; conversations run with the published version.

    The message names the differences. `holdfast up --app` or `connect(publish=True)` publishes the app as it is here.
    """
