"""Adapters to other frameworks, on the public interface of docs/integrations.md alone.

Each needs an extra of its own.
"""
