"""One point of a figure, and the port where it is measured."""
