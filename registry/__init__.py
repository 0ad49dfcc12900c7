"""Finding or reviving a conversation: `Registry`, the sweeper, joining a Ray cluster.

The package imports none of its modules, since most of them import Ray. Code that reaches the store may raise `StoreError`, and
code that reaches Ray `ClusterUnavailable`: docstrings name only other errors.
"""

__all__: list[str] = []
