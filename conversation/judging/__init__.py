"""The judgement of commands: `machine` looks each one up in `table`, and its judge returns the events."""
