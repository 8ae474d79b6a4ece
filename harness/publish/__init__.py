"""The matrix for readers: one renderer per format."""
