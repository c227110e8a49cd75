"""Runs: an agent played at one setting or at those of a suite, with records, controls and reports."""
