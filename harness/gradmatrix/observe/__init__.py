"""The part that runs in the environment under test: standard library and torch only, Python 3.9 syntax.

It never imports the host side. The boundary is a file protocol, described in ``protocol.py``.
"""
