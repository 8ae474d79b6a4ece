"""The commands: arguments and printing, a module for each family; ``cli`` puts them together."""
