"""Search as Lucene ranks it, and the comparisons of texts that WebShop's reward makes. NumPy only.

`index.Index` searches; `build.write_index` builds one. `analysis` turns text into terms,
`bm25` holds the formula. `fuzzy`, `colours` and `nouns` compare attributes, options and titles.
"""
