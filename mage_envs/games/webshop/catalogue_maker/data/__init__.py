"""Word lists: five departments, options of products, and phrases of buyers and sellers."""
