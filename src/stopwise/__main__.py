"""`python -m stopwise`: the same as the command `stopwise`."""

from stopwise.cli import main

if __name__ == "__main__":
    main()
