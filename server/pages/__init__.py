"""The pages for people: the inbox of what waits, conversations, agents and problems, as HTML."""
