"""Messages of `parse_kinds.EVERYTHING`, in many layouts, and what becomes of their bytes on a bad day."""

from __future__ import annotations

import random

from tests.kit.parse_kinds import BAD, BEYOND, EVERYTHING, GOOD, LEFT

IGNORED = [
    *("0", "-1.5e+300", "true", "null", '""', '"\\u00fc\\ud83d\\ude00 \\"x\\" \\\\"', '"käse 😀"', "[]", "{}"),
    *("[1,[2,{}]]", '{"code":"ab","x":[null,{"small":1}]}', '"\\ud800"'),
    *("01", "1.", "-", '"\\x"', "[1,]", '{"a"}', "tru", '"\t"', "[}", '{"a":1,}', "[1 2]", "+1", "1e", "NaN"),
    *("[" * 63 + "]" * 63, "[" * 64 + "]" * 64, '{"a":' * 63 + "1" + "}" * 63, "[" * 62 + '{"a":[]}' + "]" * 62),
]
NAMES = [*EVERYTHING, "f\\u00fcll", "\\u0063ode", "x", "", "longer than any that the contract has", "ö", "\\ud800"]
TOKENS = [
    *(bytes([byte]) for byte in b'"\\,:{}[]0-.eE+ \t\n\r\0\x1f\x7fnulltrue'),
    *(b"\x80", b"\xbf", b"\xc0\xaf", b"\xc3", b"\xc3\xa4", b"\xe2\x82", b"\xed\xa0\x80"),
    *(b"\xf0\x9f\x98\x80", b"\xf4\x90\x80\x80", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xef\xbb\xbf"),
    *(b'""', b'\\"', b"\\\\", b"\\u", b"\\u0000", b"\\u00e4", b"\\ud83d\\ude00", b"\\ud83d", b"null", b"1e5", b"/*"),
]


def written(draw: random.Random, wrong: float = 0.3) -> bytes:
    """A message with some or all fields, in an order and a layout of its own."""
    given = [field for field in EVERYTHING if draw.random() < (0.01 if field in LEFT else 0.98)]
    values = {field: draw.choice(GOOD[field])[0] for field in given}
    members = [(field, value) for field, value in values.items() if value not in BEYOND or draw.random() < 0.05]
    if draw.random() < wrong:
        field = draw.choice([*EVERYTHING])
        members = [(name, value) for name, value in members if name != field]
        members.append((field, draw.choice([*BAD[field], *BAD[draw.choice([*EVERYTHING])], ("null", "")])[0]))
    while draw.random() < 0.2:
        members.insert(draw.randrange(len(members) + 1), (draw.choice(NAMES), draw.choice(IGNORED)))
    if draw.random() < 0.3:
        draw.shuffle(members)
    colon, comma = draw.choice([":", ": ", " :\t"]), draw.choice([",", ", ", "\r\n ,"])
    text = "{" + comma.join(f'"{name}"{colon}{value}' for name, value in members) + "}"
    return (draw.choice(["", "", " "]) + text + draw.choice(["", "", "\n"])).encode()


def mutated(draw: random.Random) -> bytes:
    """The same, after some bytes were lost, doubled, changed or put in."""
    message = written(draw, 0.05)
    for _ in range(draw.choice([0, 0, 1, 1, 1, 2, 5])):
        at = draw.randrange(len(message) + 1)
        to = min(len(message), at + draw.choice([0, 1, 1, 2, 7, 16, 100]))
        kind = draw.randrange(6)
        if kind == 0:
            message = message[:at] + draw.choice(TOKENS) + message[at:]
        elif kind == 1:
            message = message[:at] + draw.choice(TOKENS) + message[to:]
        elif kind == 2:
            message = message[:at] + draw.randbytes(1) + message[at + 1 :]
        elif kind == 3:
            message = message[:at] + message[to:]
        elif kind == 4:
            message = message[:to] + message[at:]
        else:
            message = message[:at]
    return message
