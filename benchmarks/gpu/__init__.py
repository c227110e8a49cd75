"""What a GPU and the real vLLM do: commands for a machine that has them."""
