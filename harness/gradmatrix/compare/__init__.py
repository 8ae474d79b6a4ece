"""May I upgrade? Two sides, cell by cell."""

RUNS = "a stack, a results folder, a file of records (.jsonl), or COMMIT:FOLDER"
"""What names a run that exists; for ``--help`` and errors."""
