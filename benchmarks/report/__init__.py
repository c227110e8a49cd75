"""`mage-bench report` writes runs as one HTML file that opens offline; `mage-bench quote` prints a transcript."""
