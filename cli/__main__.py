"""`python -m holdfast.cli` is the `holdfast` command."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
