"""`python -m fleetsieve`."""

from fleetsieve.cli import main

main()
