"""Sentences that people published, and what the records say of them."""
