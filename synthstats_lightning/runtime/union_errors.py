"""What jsonargparse says of a value that fits none of several types, in few words."""

from __future__ import annotations

import re


def shorten(message: str) -> str:
    """The one reason in a message that lists every alternative of a union and quotes the whole value.

    Args:
        message: What jsonargparse says, in several lines.
    """
    text = " ".join(message.split())
    if "Errors: - " not in text:
        return text
    key = re.match(r'Parser key "[^"]+": ', text)
    reasons = text.split("Errors: - ")[-1].split(" Given value type: ")[0].split(" - ")
    telling = [reason for reason in reasons if not reason.startswith("Expected a <class ")]
    return (key[0] if key else "") + (telling or reasons)[0]
