"""Contenders: each script holds the same conversation with another system, in an environment of its own."""
