"""Scripts that made test data with the programs that WebShop itself runs on: Lucene and thefuzz.

They are kept to show where the data came from and to make it again; nothing else imports them. Each names what it needs
to be installed, which belongs into an environment of its own.
"""
