"""From matrix.toml to a stack, its lock and its installed environment."""
