"""``python -m harness``: the same as the ``gradmatrix`` command."""

from harness.cli import script

if __name__ == "__main__":
    script()
