"""A script or an environment of the user's own."""
