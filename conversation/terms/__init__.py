"""Declarations and statements: agents' specs, people, decisions, grants, questions, verdicts of rules."""
