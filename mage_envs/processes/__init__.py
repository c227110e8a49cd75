"""Worker processes and deadlines: the only way to call code that may hang or die."""
