"""The one family of errors a user sees: what was given, what is needed, the remedy."""

from collections.abc import Sequence


class MillraceError(Exception):
    """Something the user can put right. The command line prints the sentence alone, without a traceback."""


class BadSetting(MillraceError):
    """A setting is unknown, of the wrong form, or contradicts another."""

    def __init__(self, sentence: str, about: Sequence[str] = ()) -> None:
        super().__init__(sentence)
        self.about = tuple(about)  # the settings it is about, so that it can be told where these were given


class BadContract(MillraceError):
    """A contract file, a table or a topic is not what the contract says."""


class BudgetTooSmall(MillraceError):
    """A join cannot work within the memory it was given."""


class MasterReadFailed(MillraceError):
    """The master data could not be read after all retries. Never to be taken for a miss."""


class WarehouseRefused(MillraceError):
    """The warehouse cannot be written without breaking a promise."""


class StorageFailed(MillraceError):
    """Where tables or checkpoint lie is full, closed, missing or out of reach. Nothing is lost by it."""


class NotUnique(MillraceError):
    """A join that finds one master row a key was given a master table where a key may have many."""


class TopicChanged(MillraceError):
    """A topic is no longer the one that was read, or no longer has the messages that come next."""


class KafkaReadFailed(MillraceError):
    """The topics could not be read after all retries. Nothing is lost; the next start goes on."""


class CorruptMessages(MillraceError):
    """What a broker gave for messages is not what Kafka writes."""


class FeedRefused(MillraceError):
    """The database does not let its changes be followed."""
