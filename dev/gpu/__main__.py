"""`python -m dev.gpu`."""

from dev.gpu.measure import main

if __name__ == "__main__":
    raise SystemExit(main())
