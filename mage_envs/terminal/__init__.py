"""The command line for a person: playing, listing, checking the installation."""
