"""`python -m dev.speed`."""

from dev.speed.measure import main

if __name__ == "__main__":
    raise SystemExit(main())
