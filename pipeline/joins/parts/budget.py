"""How much of a join's memory its algorithm may split, and the other way round."""

from __future__ import annotations

from collections.abc import Callable

OFFER_SHARE = 10  # one part of so many of the memory is for looking at sales that are offered
LONG_KEYS_SHARE = 64  # and one to know long keys again
LONGEST_OFFER = 16_384  # sales; beyond that nothing is gained, and the processor's cache is lost
_OVERHEAD = 2_048  # bytes of a join's small parts


def to_split(memory: int) -> int:
    """Bytes of a join's memory that its algorithm may split."""
    # Rounded once, not twice: a byte more of memory must never be a byte less to split.
    return memory - memory * (LONG_KEYS_SHARE + OFFER_SHARE) // (OFFER_SHARE * LONG_KEYS_SHARE) - _OVERHEAD


def longest_offer(memory: int, words: int) -> int:
    """Sales that a join looks at together, if their keys' codes have so many words."""
    return max(1, min(LONGEST_OFFER, memory // OFFER_SHARE // (8 * words + 64)))


def most_that_fit(memory: float, bytes_for: Callable[[int], float], most: int) -> int:
    """The greatest number, `most` or less, that takes no more than the memory; 0 if none does.

    >>> most_that_fit(100, lambda rows: 10 + 7 * rows, 50), most_that_fit(5, lambda rows: 10 + 7 * rows, 50)
    (12, 0)
    """
    if most <= 0 or memory <= 0:
        return 0
    if (at_most := bytes_for(most)) <= memory:
        return most
    least, at_least, turn = 0, 0.0, 0
    while most - least > 1:
        turn += 1
        # Bytes go nearly with the number, so a guess by proportion is nearly right; every third time in the middle.
        share = (memory - at_least) / (at_most - at_least) if turn % 3 else 0.5
        number = least + max(1, min(most - least - 1, int(share * (most - least))))
        size = bytes_for(number)
        if size <= memory:
            least, at_least = number, size
        else:
            most, at_most = number, size
    return least


def memory_for(needed: float) -> int:
    """The least memory of which a join may split so many bytes.

    >>> to_split(memory_for(5_000)), to_split(memory_for(5_000) - 1)
    (5000, 4999)
    """
    memory = int(needed)
    while to_split(memory) < needed:
        memory += max(1, int(needed - to_split(memory)))
    return memory
