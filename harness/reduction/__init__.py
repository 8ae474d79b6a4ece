"""A scenario's source, reduced to one variant."""
