"""A comparison in the forms in which people and machines read it."""
