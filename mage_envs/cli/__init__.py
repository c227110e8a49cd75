"""The command line for a user: play games, list them, check the installation."""
