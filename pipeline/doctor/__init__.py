"""`millrace doctor`: what a job needs and finds, line by line. It asks and never writes, and starts no Spark."""
