"""What follows from a log: the state, what is outstanding, the transcript, the audit chain, the indexes."""
