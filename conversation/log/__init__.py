"""Everything derived from a log: the state, outstanding work, the transcript, the audit chain, the indexes."""
