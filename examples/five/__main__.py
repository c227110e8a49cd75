"""`python -m examples.five`."""

from examples.five.run import main

if __name__ == "__main__":
    raise SystemExit(main())
