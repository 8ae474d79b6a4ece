"""Known faults for the self-audit, in the tested environment: torch only, Python 3.9 syntax.

``injected.py`` is a script like a scenario; ``faults.py`` has the mistakes, written as people write
them. The line to blame is marked by the comment ``# culprit``, which the host reads.
"""
