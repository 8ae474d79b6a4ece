"""Look at a script or an environment of the user."""
