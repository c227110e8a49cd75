"""`python -m benchmarks.demo`."""

from benchmarks.demo.run import main

if __name__ == "__main__":
    raise SystemExit(main())
