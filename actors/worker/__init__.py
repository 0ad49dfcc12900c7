"""The worker: its app, model calls and tool runs. This root imports nothing: only workers import litellm and users' apps."""
