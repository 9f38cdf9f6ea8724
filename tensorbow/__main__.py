"""`python -m tensorbow`: the command line."""

import sys

from tensorbow.cli import main

if __name__ == "__main__":
    sys.exit(main())
