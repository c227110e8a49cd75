"""Search with Lucene's ranking, and the text comparisons of WebShop's reward, in NumPy.

`index.Index` searches an index, and `build.write_index` builds it. `analysis` turns text into terms, and `bm25` has the
formula. `fuzzy`, `colours` and `nouns` compare attributes, options and titles.
"""
