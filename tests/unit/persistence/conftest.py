"""Hypothesis leaves no files, and takes its time."""

import os

from hypothesis import settings

settings.register_profile("persistence", deadline=None, database=None, max_examples=50, derandomize="CI" in os.environ)
settings.load_profile("persistence")
