"""The HTML pages for people: the inbox of pending calls, conversations, agents and problems."""
