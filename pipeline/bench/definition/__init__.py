"""What the files of experiments say, and what their papers claim."""
