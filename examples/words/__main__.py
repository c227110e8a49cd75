"""`python -m examples.words`."""

from examples.words.run import main

if __name__ == "__main__":
    raise SystemExit(main())
