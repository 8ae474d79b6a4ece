"""The cells of one stack: plan, server, verdict, record."""
