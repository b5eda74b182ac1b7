"""A record as read, whichever client read it, and as it is to be sent."""

from typing import NamedTuple, Optional


class Record(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    key: Optional[bytes]
    value: Optional[bytes]
    headers: list
