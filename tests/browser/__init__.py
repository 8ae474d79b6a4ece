"""The published pages in a real browser: what a reader sees and does."""
