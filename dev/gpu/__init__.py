"""Measurements of a GPU and of the real vLLM: commands for a machine that has them."""
