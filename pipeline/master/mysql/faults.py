"""Faults of a read: which pass by themselves, and what to do about the others."""

from __future__ import annotations

import ssl

from pipeline.errors import BadSetting
from pipeline.master.mysql.session import beneath

# Errors of the server or the connection that pass by themselves. Any other number needs a person.
_PASSING = frozenset(
    [
        *(1020, 1205, 1213, 1412, 1615),  # record changed, lock wait, deadlock, table changed under us
        *(1037, 1038, 1041, 1135, 1021),  # out of memory, threads, disk
        *(1040, 1129, 1203, 1226),  # too many connections, host blocked after errors, user's limits
        *(1053, 1077, 1079, 1927, 3168, 3169, 4031),  # server stopping or not yet ready, session ended
        *(1152, 1158, 1159, 1160, 1161),  # network errors seen by the server
        *(1317, 1969, 3024),  # query interrupted, statement took too long
        *(2002, 2003, 2006, 2013, 2014, 2055),  # cannot connect, server gone, connection lost or out of step
    ]
)

_REMEDY = "This does not pass by itself: check master.user, its password and grants, and the dimension's contract."
_REMEDY_OF_TRUST = (
    "This does not pass by itself: the server's certificate must be signed by an authority in master.tls_ca, for the "
    "name or address that master.host gives."
)


def _is_distrust(error: BaseException) -> bool:
    """Whether the server showed a certificate that we do not accept."""
    causes = [error, error.__cause__, beneath(error)]
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes)


def remedy_of(error: BaseException) -> str:
    """What to do about a fault that does not pass."""
    return _REMEDY_OF_TRUST if _is_distrust(error) else _REMEDY


def is_passing(error: BaseException) -> bool:
    """Whether a failed attempt may succeed later by itself."""
    if isinstance(error, BadSetting):
        return False
    if _is_distrust(error):
        return False
    number = error.args[0] if error.args else None
    if isinstance(number, int) and number and not isinstance(error, OSError):
        return number in _PASSING
    # No number of the server's: the drivers' words for a broken connection.
    return isinstance(error, (OSError, TimeoutError, EOFError)) or type(error).__name__ in (
        "TimeoutError",
        "InterfaceError",
        "InternalError",
    )
