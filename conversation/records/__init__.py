"""The records that are stored and sent: commands, events, effects, and the state with its calls."""
