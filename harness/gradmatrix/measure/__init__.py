"""Step times of two sides, measured side by side."""
