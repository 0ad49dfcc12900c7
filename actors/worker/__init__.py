"""The worker, which runs models and tools: its app, its model calls and its tool runs.

Only workers import litellm and users' apps, so this package's root imports nothing.
"""
