"""How fast the project is, side by side in one run: commands for its developers."""
