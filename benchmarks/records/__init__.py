"""Records of evaluations: one line with a digest per meta-episode. A replay of a record reproduces it to the byte."""
