"""``python -m gradmatrix``: the same as the ``gradmatrix`` command."""

from gradmatrix.cli.main import script

if __name__ == "__main__":
    script()
