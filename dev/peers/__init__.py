"""Speed beside other projects: each in its own virtual environment, all measured in turn on one machine."""
