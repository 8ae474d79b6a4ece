"""From records to files: tables, pages, feeds, badges."""
