"""`python -m benchmarks.words`."""

from benchmarks.words.run import main

if __name__ == "__main__":
    raise SystemExit(main())
