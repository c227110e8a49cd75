"""WebShop for a customer: errands for different products, and one customer with wishes that are not said."""

from mage_envs.games.webshop.customer.shopping import SETTINGS, WebShopCustomer

__all__ = ["SETTINGS", "WebShopCustomer"]
