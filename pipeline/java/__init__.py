"""Java and the jars that Spark needs: found or fetched, by sha256."""
