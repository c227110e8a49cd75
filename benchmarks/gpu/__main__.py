"""`python -m benchmarks.gpu`."""

from benchmarks.gpu.measure import main

if __name__ == "__main__":
    raise SystemExit(main())
