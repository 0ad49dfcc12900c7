"""Where a conversation is found or revived: `Registry`, the sweeper, joining a Ray cluster.

The package imports none of its modules, since most of them import Ray.
"""

__all__: list[str] = []
