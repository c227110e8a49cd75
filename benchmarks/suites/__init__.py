"""Suites: which runs they plan, and in which folders."""
