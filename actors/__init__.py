"""The Ray actors: `ConversationActor`, which hosts conversations, and `Worker`, which runs models and tools.

Code that reaches the store may raise `StoreError`, and code that reaches Ray `ClusterUnavailable`: docstrings name only others.
"""

__all__: list[str] = []
