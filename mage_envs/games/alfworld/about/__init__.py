"""What other parts know of ALFWorld: its records, the tasks of its panels, and rows of `mage doctor`."""
