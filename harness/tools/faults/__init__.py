"""Known faults for the self-audit, in the tested environment: standard library and torch only, Python 3.9 syntax.

``injected.py`` is a script like a scenario; the other modules hold the mistakes, written as people write them. The
guilty line of each is marked by a comment, ``# culprit``, which the host reads.
"""
