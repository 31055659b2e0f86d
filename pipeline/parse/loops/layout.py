"""What scanner and loops tell each other: tables of 64-bit numbers with a row a field, and what a loop answers."""

from __future__ import annotations

# Kinds of fields.
TEXT, BASE64, INT32, INT64, DECIMAL, DOUBLE, BOOLEAN, DATE, TIMESTAMP = range(9)

# A row of the rules, which stay as they are.
(
    KIND,
    NULLABLE,
    REQUIRED,
    NAME,  # address of the name with the quote behind it
    NAME_SIZE,  # bytes, with the quote
    NEVER,  # no value but null is for the loops to say yes to
    LOWEST,  # of whole numbers; for a decimal the lower half of 128 bits,
    LOWEST_HALF,  # and the upper one
    HIGHEST,
    HIGHEST_HALF,
    STEP,
    AMONG,  # address of the numbers allowed, ascending
    AMONG_COUNT,  # -1: any
    SCALE,
    AS_NUMBER,
    AS_TEXT,
    SHORTEST,  # in characters
    LONGEST,
    LEAST,  # of doubles, as their bits
    MOST,
    ABOVE,
    BELOW,
) = range(22)
RULES = 22

# A row of the columns that are being written. There is one more row than fields: what `NEXT` is before the first.
VALUES, VALID, BYTES, CAPACITY, SEEN, NEXT = range(6)  # addresses; of texts the offsets are the values
COLUMNS = 6

# How far a scan is.
MESSAGE, ROW, STAMP, FULL_FIELD = range(4)
PROGRESS = 4

# Instead of a place in the message.
UNSURE = -1
FULL = -2  # a column of texts has no room for this one

ROOM = 16  # texts are written so many bytes at a time, the last time beyond their end
