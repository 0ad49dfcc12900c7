"""What runs models and tools: the worker, its apps, model calls and tool runs.

Only workers import litellm and users' apps, so nothing is imported here.
"""
