"""Where a conversation is found or revived: `Registry.ensure_started`, the sweeper, the embedded stack.

This page imports no Ray: `registry`, `sweeper` and `embedded` are imported by who needs them.
"""

from .settings import Settings

__all__ = ["Settings"]
