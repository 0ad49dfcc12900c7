"""What is stored and sent: commands, events, effects, and the state with its calls."""
