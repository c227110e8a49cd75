"""`mage-bench report`: runs as one HTML file that opens without a network; `mage-bench quote`: a transcript as text."""
