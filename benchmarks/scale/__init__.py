"""Level and adaptation on one exact scale: lines, scores, sentence, tables, stored suites."""
