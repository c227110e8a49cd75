"""Speed beside other projects: each in a virtual environment of its own, all measured in turn on this machine."""
