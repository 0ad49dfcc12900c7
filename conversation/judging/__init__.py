"""The judgement of a command: from `machine`, by the table, to the resulting events."""
