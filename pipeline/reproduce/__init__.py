"""Tables and figures of the five papers, made again on the user's data and set beside what the papers print."""
