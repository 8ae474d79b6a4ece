"""From records to files: data, pages, the feed and reports."""
