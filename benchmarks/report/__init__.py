"""`mage report` writes runs as one HTML file that opens offline."""
