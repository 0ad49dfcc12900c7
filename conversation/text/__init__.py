"""Texts: JSON and its schemas, patterns, and letters that look alike."""
