"""The scheduled run: jobs, their records, publication."""
