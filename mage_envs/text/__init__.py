"""Texts: prompts and their styles, the parser of replies, and the protocol for generators of replies."""
