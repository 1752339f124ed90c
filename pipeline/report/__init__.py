"""The report: one HTML page without scripts, its figures as CSV beside it, and the table of the terminal."""
