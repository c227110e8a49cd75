"""WebShop: purchases in a simulated shop by instruction (Yao et al. 2022)."""
