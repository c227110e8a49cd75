"""People at a game: `mage play` in a terminal, `mage arena` in a browser, and the same table at the end of both."""
