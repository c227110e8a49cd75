"""`python -m examples.smollm2`."""

from examples.smollm2.study import main

if __name__ == "__main__":
    raise SystemExit(main())
