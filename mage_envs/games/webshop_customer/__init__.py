"""WebShop for a customer: errands for different products, and one customer with wishes that are not said.

Nothing is imported here, because the list of customers must not load the shop.
"""
