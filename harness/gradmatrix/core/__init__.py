"""The words of the project: errors, files, text, outcomes, observations.

It imports nothing else of this package.
"""
