"""What scanner and loops tell each other: tables of 64-bit numbers with a row a field, and what a loop answers."""

from __future__ import annotations

# Kinds of fields.
TEXT, BASE64, INT32, INT64, DECIMAL, DOUBLE, BOOLEAN, DATE, TIMESTAMP = range(9)

# A row of the rules, which stay as they are. Behind the fields' is one of any text.
(
    KIND,
    NULLABLE,
    REQUIRED,
    NAME,  # address of the name with the quote behind it
    NAME_SIZE,  # bytes, with the quote
    ASIDE,  # address of the rules of its text as it was given, if that is kept beside what it means
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
) = range(23)
RULES = 23

# A row of the columns that are being written: addresses (of texts those of the offsets), the address of the row of the
# texts kept aside, the message it was seen in, and which field comes after it. The row behind the fields' is for what
# comes before the first one; then there are those of the texts kept aside.
VALUES, VALID, BYTES, CAPACITY, BESIDE, SEEN, NEXT = range(7)
COLUMNS = 7

# A scan: addresses, sizes, and how far it is.
(
    DATA,
    SIZE,
    OFFSETS,
    THERE,  # bits that are 0 where there is no message; 0 if all are there
    FIRST_BIT,
    COUNT,  # messages
    LONGEST_MESSAGE,  # in bytes
    FIELDS,
    RULE_TABLE,
    COLUMN_TABLE,
    NAMES,  # fields by their names' hashes
    NAMES_MASK,
    SPARE,  # room for a name
    SPARE_SIZE,
    POSITIONS,  # of the messages that have a row
    MESSAGE,
    ROW,
    STAMP,
    FULL_FIELD,
) = range(19)
STATE = 19

# Instead of a place in the message.
UNSURE = -1
FULL = -2  # a column of texts has no room for this one

ROOM = 16  # texts are written so many bytes at a time, the last time beyond their end
