"""The worker: its app, model calls and tool runs. Imports nothing here: only workers import litellm and users' apps."""
