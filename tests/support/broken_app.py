"""An app that cannot be imported, and says why with its secrets."""

import os

from leaky_app import refused

os.environ["BROKEN_API_KEY"] = "queen-of-hearts-0817"
try:
    refused()
except ConnectionError as error:
    raise ValueError(f"{error}; {os.environ['BROKEN_API_KEY']}") from error
