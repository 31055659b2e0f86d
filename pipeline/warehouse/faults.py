"""What storage says when it refuses, as one sentence: which place, why, and what to do.

The same mistake sounds different from the operating system, from deltalake's Rust and from Spark's Hadoop. Here all
three end up in one table of reasons, so that a full disk or a forgotten option reads the same from all of them.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

_LONGEST_REASON = 300


@dataclass(frozen=True)
class Place:
    """Somewhere the job writes, and the setting that says where; none for a folder inside such a place."""

    setting: str
    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri or self.uri.startswith("file:")

    @property
    def folder(self) -> str:
        """As the system and Spark name it."""
        if not self.is_local:
            return self.uri
        path = unquote(urlsplit(self.uri).path) if self.uri.startswith("file:") else self.uri
        return os.path.abspath(os.path.expanduser(path))

    @property
    def endpoint(self) -> str | None:
        """Where the options say that the store answers; None for the store's own address."""
        return next((value for name, value in self.options.items() if "endpoint" in name.lower()), None)

    def __str__(self) -> str:
        return f"{self.setting} = {self.uri}" if self.setting else self.uri


@dataclass(frozen=True)
class _Fault:
    pattern: str  # in what the system said, case not regarded
    is_so: str
    remedy: str  # this and `is_so` may name what `_words` knows


_GOES_ON = "Nothing is lost: the same start then goes on behind the last commit."

_OF_A_DISK = (
    _Fault(
        r"No space left on device|Disk quota exceeded",
        "the disk is full{free}",
        f"Make room there, or move the folder to a larger disk and name that. {_GOES_ON}",
    ),
    _Fault(
        r"Read-?only ?file ?system",
        "the file system is mounted read-only",
        f"Mount it for writing (after a disk error look at the system's log first), or name another folder. {_GOES_ON}",
    ),
    _Fault(
        r"Permission denied|PermissionDenied|AccessControlException|Operation not permitted",
        "this account ({account}) may not write there",
        "Give it the right to, or name a folder of its own.",
    ),
    _Fault(
        r"Not a directory|NotADirectory|ParentNotDirectoryException|is not a directory|File exists",
        "a file stands where a folder is needed",
        "Name a folder, or move the file away.",
    ),
    _Fault(
        r"Too many open files",
        "the process may not open more files",
        "Raise the limit (`ulimit -n`), or let the table be partitioned by fewer values.",
    ),
    _Fault(r"File ?name too long", "the name of a file there would be too long", "Name a folder nearer to the root."),
    _Fault(
        r"Stale file handle|Transport endpoint is not connected|Input/output error|Host is down|No such device",
        "the mount does not answer any more",
        f"Mount it again. {_GOES_ON}",
    ),
    _Fault(
        r"No such file or directory|does not exist or you don't have access|NoSuchFile|FileNotFoundException",
        "a folder or file is not there (any more)",
        "Is a mount missing, or was it moved or deleted? Put it back, or name the right folder.",
    ),
)

_OF_A_STORE = (
    _Fault(
        r"ClassNotFoundException: Class org\.apache\.hadoop|No FileSystem for scheme|UnsupportedFileSystem|"
        r"NoClassDefFoundError: (?:org/apache/hadoop/fs|software/amazon|com/azure)",
        "Spark has no connector for {scheme}://",
        "`millrace run` and the image's STORE build argument bring it for s3a://, abfss:// and gs://; to spark-submit "
        'give --jars "$(millrace jars --config FILE)".',
    ),
    _Fault(
        r"Unknown scheme|unsupported url|UnsupportedScheme",
        "{scheme}:// is no store that deltalake knows",
        "Write a folder, or s3a://, abfss://, gs:// or hdfs://.",
    ),
    _Fault(
        r"URL scheme is not allowed",
        "the endpoint ({endpoint}) is plain http, and that is not allowed unless said",
        'Set AWS_ALLOW_HTTP = "true" in warehouse.storage_options (for Azure AZURE_ALLOW_HTTP, for others ALLOW_HTTP), '
        "or name an endpoint with https.",
    ),
    _Fault(
        r"NoSuchBucket|UnknownStoreException|Bucket does not exist|bucket does not exist|ContainerNotFound|"
        r"FilesystemNotFound|specified (?:container|filesystem|bucket) does not exist",
        "the store has no {bucket_word} {bucket}",
        "Create it (Millrace does not), or correct the URI or {endpoint_option}.",
    ),
    _Fault(
        r"PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint|Missing region|301 Moved",
        "the {bucket_word} {bucket} is in another region than the one asked ({region})",
        "Set AWS_REGION in warehouse.storage_options to the bucket's.",
    ),
    _Fault(
        r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|ExpiredToken|InvalidAuthenticationInfo|"
        r"AuthenticationFailed|401 Unauthorized|Invalid Access Key|invalid_grant|invalid_client|InvalidClientTokenId",
        "the store does not accept these credentials ({code})",
        "Correct {keys} in warehouse.storage_options or in the environment.",
    ),
    _Fault(
        r"service account file|credentials file|keyfile",
        "the file with the store's key cannot be read ({code})",
        "Correct {keys} in warehouse.storage_options.",
    ),
    _Fault(
        r"169\.254\.169\.254|latest/api/token|metadata\.google|NoAuthWithAWSException|Unable to load credentials|"
        r"credential error|AccessTokenProvider|No credentials|no credential",
        "there are no credentials: none are given, and this machine has no role of its own ({code})",
        "Give {keys} in warehouse.storage_options or in the environment, or give the machine a role.",
    ),
    _Fault(
        r"AccessDenied|AuthorizationPermissionMismatch|403 Forbidden|Status Code: 403|AuthorizationFailure",
        "these credentials may not do that ({code})",
        "Give their account the right to list, read, write and delete below {uri}, or correct {keys}.",
    ),
    _Fault(
        r"certificate|UnknownIssuer|PKIX path|SSLHandshake|InvalidContentType|Unrecognized SSL message|record overflow",
        "the endpoint ({endpoint}) cannot be trusted or does not speak TLS",
        "Correct http or https in {endpoint_option}, or make the machine trust the endpoint's authority.",
    ),
    _Fault(
        r"Connection refused|dns error|failed to lookup|Name or service not known|UnknownHostException|"
        r"ConnectException|Unable to execute HTTP request|timed out|Network is unreachable|No route to host|"
        r"connection closed|error sending request|Connection reset",
        "nobody answers at the store's endpoint ({endpoint})",
        "Is it running, and is {endpoint_option} right? {goes_on}",
    ),
    _Fault(
        r"InvalidUri|relative URL without a base|empty host|InvalidFormat|invalid format",
        "the endpoint ({endpoint}) is not a URL",
        "Write {endpoint_option} as https://host:port.",
    ),
    _Fault(
        r"SlowDown|ServiceUnavailable|503 |500 Internal|InternalError|ServerBusy|Too Many Requests|429 ",
        "the store does not keep up or is not well ({code})",
        "Start again when it is. {goes_on}",
    ),
)

_OF_A_TABLE = (
    _Fault(
        r"DELTA_(?:METADATA_CHANGED|PROTOCOL_CHANGED|CONCURRENT_(?:APPEND|DELETE|WRITE))|Transaction conflict detected|"
        r"(?:MetadataChanged|ProtocolChanged|ConcurrentWrite)Exception",
        "another's commit to a table came in between",
        "Nothing is lost: start the same again.",
    ),
)

# By the first letters of the scheme: what a bucket is called, and which options matter.
_FAMILIES = {
    "s3": ("bucket", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    "ab": ("container", "AZURE_STORAGE_ENDPOINT", "AZURE_STORAGE_ACCOUNT_KEY (or client id, secret and tenant)"),
    "gs": ("bucket", "GOOGLE_ENDPOINT_URL", "GOOGLE_SERVICE_ACCOUNT, the path of a key file,"),
}


def sentence(place: Place, said: str) -> str | None:
    """What the system said about a place; None if that is about something else."""
    said = said.replace(place.uri, "")  # a folder may be called anything
    for fault in (*_OF_A_TABLE, *(_OF_A_DISK if place.is_local else _OF_A_STORE)):
        if re.search(fault.pattern, said, re.IGNORECASE):
            words = _words(place, said)
            return f"{place}: {fault.is_so.format(**words)}. {fault.remedy.format(**words)}"
    return None


def _words(place: Place, said: str) -> dict[str, str]:
    scheme = urlsplit(place.uri).scheme
    bucket_word, endpoint_option, keys = _FAMILIES.get(scheme[:2], ("bucket", "the endpoint", "the credentials"))
    options = {name.lower(): value for name, value in place.options.items()}
    asked = re.search(r"https?://[^/\s,]+", said)
    return {
        "free": _free(place) if place.is_local else "",
        "account": _account(),
        "scheme": scheme,
        "uri": place.uri,
        "bucket_word": bucket_word,
        "bucket": urlsplit(place.uri).netloc.partition("@")[0],
        "endpoint_option": endpoint_option,
        "endpoint": place.endpoint or (asked[0] if asked else "the store's own"),
        "region": options.get("aws_region") or os.environ.get("AWS_REGION") or "none",
        "keys": keys,
        "code": _code(said),
        "goes_on": _GOES_ON,
    }


def _free(place: Place) -> str:
    folder = place.folder
    while folder and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    usage = shutil.disk_usage(folder or "/")
    return f" ({usage.free >> 10:,} of {usage.total >> 10:,} KiB are free)"


def _account() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"


def _code(said: str) -> str:
    """The store's own word for it, as short as it can be had."""
    found = re.search(r"<Code>(\w+)</Code>", said) or re.search(r"\b([45]\d\d [A-Z][A-Za-z ]+)", said)
    return found[1].strip() if found else innermost(said)


def spoken(said: str) -> str:
    """Without the frames of a stack: only what was said, by whom, and the last of that."""
    lines = [line for line in said.splitlines() if line.strip() and not line.lstrip().startswith(("at ", "..."))]
    return "\n".join(lines)


def innermost(said: str) -> str:
    """The last thing said in a chain of causes, without colours, arrows, frames and class names."""
    plain = re.sub(r"\x1b\[[0-9;]*m|↳", "", said)
    lines = [line.strip() for line in spoken(plain).splitlines() if not line.lstrip().startswith("<")]
    causes = [n for n, line in enumerate(lines) if line.startswith("Caused by: ")]
    # Lines that begin with a dash go on with the one before: Delta lists a row's values so.
    begins = causes or [n for n, line in enumerate(lines) if not line.startswith("- ")] or [0]
    said_last = re.sub(r"^(?:Caused by: )?(?:[\w$]+\.)+\w+: ", "", " ".join(lines[begins[-1] :]))
    return said_last[:_LONGEST_REASON].rstrip(" .")
