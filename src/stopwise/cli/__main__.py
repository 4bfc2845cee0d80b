"""Entry point of `python -m stopwise.cli`."""

from stopwise.cli import main

main()
