"""The five environments of the paper, each learned by a small model: `python -m examples.five` (`make five`)."""
