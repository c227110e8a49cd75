"""Records of evaluations: what was played, line by line, with digests; they can be executed again to the byte."""
