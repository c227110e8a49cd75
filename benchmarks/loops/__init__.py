"""Loops of a user's or of another framework's, recorded as `mage eval` records its own."""
