"""What tests the instrument itself: audit, faults, benches. For maintainers; not in the wheel."""
