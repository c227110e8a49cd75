"""`mage-bench chaos`: what may go wrong in somebody's game, opponent or environment, tried in processes of its own."""
