"""Where a conversation is found or revived: `Registry`, the sweeper, joining a Ray cluster.

The package imports none of its modules, since most of them import Ray. Whatever reaches the store may raise `StoreError`, and
whatever reaches Ray `ClusterUnavailable`: docstrings name what else is raised.
"""

__all__: list[str] = []
