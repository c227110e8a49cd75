"""Speed of the project, compared side by side in one run: commands for its developers."""
