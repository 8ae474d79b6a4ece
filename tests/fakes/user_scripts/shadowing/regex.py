"""Not the library of that name."""

# ruff: noqa: INP001  (a user's own)

EXIT_CODE = 50
