"""One conversation in one actor: taking it over, judging commands, carrying out what is outstanding, leaving it.

`activation` is the whole; the other modules are its parts. None of them knows Ray.
"""
