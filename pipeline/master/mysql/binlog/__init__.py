"""The server's binary log, read as a replica reads it: which keys of the master tables change.

Read here and not by mysql-replication, which is the established reader: it knows a column's name, sign and character
set only where the server logs them (`binlog_row_metadata = FULL`, which is no server's default), takes every column of
a row to be text where it does not, so that one BLOB ends the stream, and skips compressed transactions without a word.
And it makes Python objects of whole rows, where a key is wanted: deploy/docs/feed.md has the times of both.
"""
