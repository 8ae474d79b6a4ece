"""The static site: one page per stack, scenario, package and cell."""
