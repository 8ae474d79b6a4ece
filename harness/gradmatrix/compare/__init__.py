"""May I upgrade? Two sides, cell by cell."""
