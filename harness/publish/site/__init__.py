"""The published pages: one static site that works from a file, under a sub-path and without JavaScript."""
