"""The part that runs in the tested environment: standard library and torch only, Python 3.9 syntax.

It never imports the host side. The two talk through files and pipes, as ``protocol.py`` describes.
"""
