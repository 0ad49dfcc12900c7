"""Warnings of a client that goes on although it cannot keep a guarantee."""


class DurabilityWarning(UserWarning):
    """The Redis in use may lose acknowledged events; the message says when, and `holdfast doctor` says the fix."""


class AppDiffersWarning(UserWarning):
    """The published app, with which conversations run, differs from the client's app here; the message names the differences.

    `holdfast up --app` or `connect(publish=True)` publishes the app as it is here.
    """
