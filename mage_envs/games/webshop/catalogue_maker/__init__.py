"""Generator of a shop's catalogue: products in families of near duplicates, and goals that distinguish them."""
