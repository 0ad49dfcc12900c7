"""What is declared and said: agents' specs, people, decisions, grants, questions, verdicts of rules."""
