"""Sites on a loopback port: requests, forms, cookies, visits and the server, for WebShop's shop and for the arena.

A site requires flask and waitress. They are imported when a site is made.
"""
