"""People at a game: `mage play` in a terminal or in a browser, and the same table at the end of both."""
