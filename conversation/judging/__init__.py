"""How a command is judged: from `machine`, by the table, to the events that it leads to."""
