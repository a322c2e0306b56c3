"""What was spent, told outward: sums for submitters, rows for the books of a company."""
