"""An app that cannot be imported, and says why with its secrets."""

from leaky_app import refused

refused()
