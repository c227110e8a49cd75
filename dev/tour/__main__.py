"""`python -m dev.tour`."""

from dev.tour.page import main

if __name__ == "__main__":
    raise SystemExit(main())
