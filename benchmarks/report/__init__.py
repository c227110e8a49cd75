"""`mage report` writes runs as one HTML file that opens offline; `mage quote` prints a transcript."""
