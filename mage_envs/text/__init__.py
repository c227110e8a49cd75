"""Texts: prompts and their styles, the parser of replies, what a generator of replies is."""
