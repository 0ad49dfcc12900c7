"""Where a conversation is found or revived: `Registry.ensure_started`, the sweeper, joining a Ray cluster.

The modules are imported by who needs them: most of them import Ray.
"""

__all__: list[str] = []
