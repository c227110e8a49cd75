"""Scripts that made test data with the programs that WebShop itself runs on: Lucene and thefuzz.

They document the source of the data and can make it again. Nothing else imports them. Each script names its
requirements, which belong in a separate environment.
"""
