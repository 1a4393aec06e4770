"""`python -m purgegate` is the command line."""

from purgegate.cli import main

main()
