"""The word lists: five departments, what can be chosen, and how people write."""
