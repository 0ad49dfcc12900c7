"""One conversation in one actor: taking it over, judging commands, carrying out outstanding effects, leaving it.

The class `Activation` puts the parts together; each other module is one part. None of them knows Ray.
"""
