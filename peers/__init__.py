"""Holdfast beside other systems: each script holds the same conversation with one of them, in an environment of its own."""
