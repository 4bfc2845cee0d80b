"""`python -m stopwise`: the same as the command `stopwise`."""

from stopwise.cli import main

main()
