"""What a language model answers: thoughts, prose, and the source of a program.

The only place where an answer is read. It is read by its lines and never parsed as Python: that is for the
sandbox, whatever a policy writes.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Literal, NamedTuple

Thoughts = Literal["none", "latent", "stripped"]
"""`"none"`: the policy is not asked to think; a thought that it writes anyway is a part of the trajectory.
`"latent"`: it is asked to, and thoughts are a part of the trajectory. `"stripped"`: it is asked to, and
thoughts are neither shown to it again nor a part of the trajectory."""

_THOUGHTS = (
    *((f"<{name}>", f"</{name}>") for name in ("think", "thinking", "thought", "thoughts", "reasoning")),
    *((f"<{name}>", f"</{name}>") for name in ("analysis", "scratchpad", "reflection", "seed:think")),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>thought", "<channel|>"),
)
"""What opens and what closes a thought."""
_FRAMES = (
    *(
        (f"<{name}>", f"</{name}>")
        for name in ("answer", "response", "solution", "program", "code", "output")
    ),
    ("<|begin_of_solution|>", "<|end_of_solution|>"),
    ("<|begin_of_box|>", "<|end_of_box|>"),
    ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ("<|START_TEXT|>", "<|END_TEXT|>"),
)
"""What opens and what closes an answer."""

_OPENS = re.compile(r"[ \t]*(?:" + "|".join(re.escape(pair[0]) for pair in _THOUGHTS) + ")", re.IGNORECASE)
_CLOSES = re.compile("|".join(re.escape(pair[1]) for pair in _THOUGHTS), re.IGNORECASE)
_CLOSING = {opening.lower(): closing for opening, closing in (*_THOUGHTS, *_FRAMES)}
_FRAME = re.compile(r"^[ \t]*(" + "|".join(re.escape(pair[0]) for pair in _FRAMES) + ")", re.I | re.M)

_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^<\n]*(?:<\|constrain\|>[^<\n]*)?<\|message\|>")
_CHANNEL_END = re.compile(r"<\|(?:end|return|call|start|channel)\|>")

_FENCE = re.compile(
    r"(?P<before>(?:[ \t]*(?:[-*+>]|\d+[.)])(?=[ \t`~]))*[ \t]*)(?P<mark>`{3,}|~{3,})(?P<tag>.*)"
)
_LATE_FENCE = re.compile(r"[^`~]+?(?P<mark>`{3,}|~{3,})[ \t]*(?P<tag>[A-Za-z]\w*)[ \t]*")
_LATE_CLOSE = re.compile(r"(?P<code>.*[^`~\s].*?)(?P<mark>`{3,}|~{3,})[ \t]*")
_PYTHON = re.compile(r"\W*(?:i?python|py|pymc|pycon|sage)\w*(?![\w+])", re.IGNORECASE)

_DEFINES = re.compile(
    r"^\s*(?:async\s+)?with\s+[\w.]*\bModel\s*\(|=\s*[\w.]*\bModel\s*\(|^(?:def|class)\s+(?:model|build|gen_model)\b",
    re.MULTILINE,
)
_CODE = re.compile(
    r"\s|\Z|[#@)\]}]|\"\"\"|'''|import\s+[\w.]+|from\s+[\w.]+\s+import\b|(?:async\s+)?def\s+\w+\s*\(|class\s+\w+"
    r"|(?:with|for|while|if|elif)\b.*:\s*(?:#.*)?\Z|(?:else|try|finally)\s*:|except\b.*:|(?:return|raise|del|assert)\b"
    r"|pass\s*\Z|[\w.\[\]'\"]+(?:\s*,\s*[\w.\[\]'\"]+)*\s*(?::\s*[\w.\[\]]+\s*)?[-+*/@|&%]?=(?!=)|[\w.]+[(\[]"
)
_ITEM = re.compile(r"(?:[-*+>•]|\d+[.)])\s+\S")
_TAG_LINE = re.compile(r"\s*(?:python3?|py)[ \t]*\r?\n", re.IGNORECASE)


class Answer(NamedTuple):
    """What was read from an answer.

    Attributes:
        source: Source text of the program; empty if nothing but a thought was written.
        start: Character of the answer at which the program begins.
        end: Character behind its last one. Between the two is the program as it was written: with the
            indentation of its fence and the line ends of the model, which `source` has not.
        thought_end: Characters of the thoughts at the beginning of the answer; 0 if there is none.
        dropped: Characters that go where thoughts are stripped: the same, but that the tag stays which closes
            a thought that the chat template has opened.
    """

    source: str
    start: int
    end: int
    thought_end: int = 0
    dropped: int = 0


class _Spoken(NamedTuple):
    """What of an answer is no thought, and whether a thought never ended."""

    begin: int
    end: int
    thought_end: int = 0
    dropped: int = 0
    unfinished: bool = False


class _Block(NamedTuple):
    """Lines of an answer between two fences."""

    start: int
    end: int
    python: bool
    closed: bool
    indent: int


def extract_source(text: str) -> str:
    """Source text of the program in an answer; see `read_answer`."""
    return read_answer(text).source


def read_answer(text: str) -> Answer:
    """Finds the program in an answer.

    Thoughts are passed over, whether the answer opens them or the chat template has, and of an answer in
    channels all but the final one. Of what remains the program is the last fenced block that is closed, is
    Python and defines a model; failing that the last closed one that defines a model, one that is not closed,
    and the last Python block of any kind. Without fences it is the last stretch of code between paragraphs of
    prose, and where there is no prose all of the text, unchanged.

    Args:
        text: What the model has written, without its stop token.
    """
    spoken = _spoken(text)
    block = _chosen_block(text, spoken.begin, spoken.end)
    thoughts = spoken.thought_end, spoken.dropped
    if block is not None and (
        not spoken.unfinished or (block.closed and _defines_model(_clean(text, block)))
    ):
        taken = text[block.start : block.end].removesuffix("\n").removesuffix("\r")
        return Answer(_clean(text, block), block.start, block.start + len(taken), *thoughts)
    if spoken.unfinished:
        return Answer("", spoken.end, spoken.end, *thoughts)
    begin, end = _unframed(text, spoken.begin, spoken.end)
    tag = _TAG_LINE.match(text, begin, end)
    begin, end = _between_prose(text, tag.end() if tag else begin, end)
    return Answer(_unix(text[begin:end]), begin, end, *thoughts)


def _spoken(text: str) -> _Spoken:
    """Finds the thoughts of an answer."""
    channels = list(_CHANNEL.finditer(text))
    if channels:
        finals = [found for found in channels if found[1].lower() == "final"]
        chosen = (finals or channels)[-1]
        closing = _CHANNEL_END.search(text, chosen.end())
        end = closing.start() if closing else len(text)
        thought_end = chosen.start() if finals else 0
        return _Spoken(chosen.end(), end, thought_end, thought_end, not finals)
    place = dropped = 0
    while (opening := _OPENS.match(text, _skip_blank(text, place))) is not None:
        place = _closing(text, opening[0].strip(), opening.end())
        if place < 0:
            return _Spoken(opening.end(), len(text), unfinished=True)
    if place:
        dropped = place = _skip_blank(text, place)
    elif closed := _first_close(text):
        dropped, place = closed.start(), _skip_blank(text, closed.end())
    elif later := _later_thought(text):
        return later
    return _Spoken(place, len(text), place, dropped)


def _closing(text: str, opening: str, start: int) -> int:
    """Where the thought ends that was opened; negative if it does not."""
    closing = _CLOSING[opening.lower()]
    found = re.compile(re.escape(closing), re.IGNORECASE).search(text, start)
    return found.end() if found else -1


def _first_close(text: str) -> re.Match[str] | None:
    """The first tag that closes a thought which the text has not opened."""
    for found in _CLOSES.finditer(text):
        opening = next(pair[0] for pair in _THOUGHTS if pair[1].lower() == found[0].lower())
        if opening.lower() not in text[: found.start()].lower() and _ends_thought(text, found):
            return found
    return None


def _ends_thought(text: str, closing: re.Match[str]) -> bool:
    """Whether a closing tag is markup, rather than a part of a program's string."""
    line_end = text.find("\n", closing.end())
    before = text[text.rfind("\n", 0, closing.start()) + 1 : closing.start()]
    behind = text[closing.end() : len(text) if line_end < 0 else line_end]
    return not any(before.count(quote) % 2 and quote in behind for quote in "\"'")


def _later_thought(text: str) -> _Spoken | None:
    """What is said after a thought that begins behind some prose; `None` if there is none."""
    for found in re.finditer(r"^" + _OPENS.pattern, text, re.IGNORECASE | re.MULTILINE):
        before = text[: found.start()]
        if _fences(before) % 2 or _defines_model(before):
            continue
        closing = _closing(text, found[0].strip(), found.end())
        if closing < 0:
            return _Spoken(found.end(), len(text), unfinished=True)
        place = _skip_blank(text, closing)
        return _Spoken(place, len(text), place, place)
    return None


def _fences(text: str) -> int:
    return sum(1 for line in text.splitlines() if _FENCE.fullmatch(line))


def _skip_blank(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _lines(text: str, begin: int, end: int) -> Iterator[tuple[int, str]]:
    """Start and content of each line, without its line end."""
    place = begin
    while place < end:
        stop = text.find("\n", place, end)
        stop = end if stop < 0 else stop
        yield place, text[place:stop].rstrip("\r")
        place = stop + 1


def _chosen_block(text: str, begin: int, end: int) -> _Block | None:
    """The fenced block that is taken; `None` if no block holds a program or what may be one."""
    blocks = list(_blocks(text, begin, end))
    if not blocks:
        return None
    models = [block for block in blocks if _defines_model(_clean(text, block))]
    ranked = (
        [block for block in models if block.closed and block.python],
        [block for block in models if block.closed],
        models,
        [block for block in blocks if block.closed and block.python],
    )
    for group in ranked:
        if group:
            return group[-1]
    outside = text[:begin] + text[begin : blocks[0].start]
    if _defines_model(outside):  # the program stands before the blocks, without a fence
        return None
    return next((block for block in reversed(blocks) if block.python), None)


def _blocks(text: str, begin: int, end: int) -> Iterator[_Block]:
    """Fenced blocks in their order. A fence with a tag always opens one, a program's text has none."""
    start: int | None = None
    mark, python, indent = "", False, 0
    first = True
    for place, line in _lines(text, begin, end):
        fence = _FENCE.fullmatch(line)
        tag = fence["tag"].strip() if fence else ""
        if start is None:
            late = None if fence else _LATE_FENCE.fullmatch(line)
            if fence is not None and not ("`" in tag and fence["mark"][0] == "`"):
                code = text[begin:place]
                if first and not tag and _defines_model(code) and not _prose_lines(code):
                    # the chat template, or a prompt, has opened this one
                    yield _Block(begin, place, True, True, 0)
                    first = False
                    continue
                first = False
                mark, python, indent = (
                    fence["mark"],
                    not tag or bool(_PYTHON.match(tag)),
                    len(fence["before"]),
                )
                start = min(end, place + len(text[place:end].split("\n", 1)[0]) + 1)
            elif late is not None and _PYTHON.match(late["tag"]):
                first, mark, python, indent = False, late["mark"], True, 0
                start = min(end, place + len(text[place:end].split("\n", 1)[0]) + 1)
            continue
        if fence is not None and fence["mark"][0] == mark[0]:
            if tag and "`" not in tag:
                yield _Block(start, place, python, False, indent)
                mark, python, indent = fence["mark"], bool(_PYTHON.match(tag)), len(fence["before"])
                start = min(end, place + len(text[place:end].split("\n", 1)[0]) + 1)
                continue
            if not tag and len(fence["mark"]) >= min(3, len(mark)):
                yield _Block(start, place, python, True, indent)
                start = None
                continue
        late = _LATE_CLOSE.fullmatch(line)
        if late is not None and late["mark"][0] == mark[0] and "#" not in late["code"]:
            yield _Block(start, place + len(late["code"]), python, True, indent)
            start = None
    if start is not None:
        yield _Block(start, end, python, False, indent)


def _clean(text: str, block: _Block) -> str:
    """Source of a block: line ends of one kind, the indentation of its fence taken off."""
    lines = _unix(text[block.start : block.end]).removesuffix("\n").split("\n")
    if block.indent:
        lines = [line[min(block.indent, len(line) - len(line.lstrip(" \t>"))) :] for line in lines]
    source = "\n".join(lines)
    return textwrap.dedent(source) if lines[0][:1] in (" ", "\t") else source


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _defines_model(source: str) -> bool:
    """Whether text would define a model, by its words: comments do not count."""
    code = "\n".join(line.split("#", 1)[0] for line in _unix(source).split("\n"))
    return _DEFINES.search(code) is not None


def _unframed(text: str, begin: int, end: int) -> tuple[int, int]:
    """What stands between the tags of an answer, the last of them; all if there is none."""
    found = list(_FRAME.finditer(text[begin:end]))
    if not found:
        return begin, end
    start = begin + found[-1].end()
    closing = re.compile(re.escape(_CLOSING[found[-1][1].lower()]), re.IGNORECASE).search(text, start, end)
    return _skip_blank(text, start), closing.start() if closing else end


def _is_prose(line: str) -> bool:
    """Whether a line without a fence is a sentence, a heading or an item of a list."""
    if _CODE.match(line):
        return False
    if _ITEM.match(line):
        return True
    words, begin = line.split(), line.lstrip("\"'“(*_")[:1]
    if begin.isupper() and (len(words) > 2 or line.rstrip(" *_").endswith((":", ".", "!"))):
        return True
    return len(words) > 3 and begin.isalpha() and not set("=()[]") & set(line)


def _prose_lines(text: str) -> list[tuple[int, int]]:
    """Start and end of each line of prose, or with a fence, that stands in no triple quotes."""
    found = []
    quoted = ""
    for place, line in _lines(text, 0, len(text)):
        if not quoted and (_is_prose(line) or _FENCE.fullmatch(line)):
            found.append((place, min(len(text), place + len(line) + 1)))
            continue
        for quotes in ('"""', "'''"):
            if line.count(quotes) % 2 and quoted in ("", quotes):
                quoted = "" if quoted else quotes
    return found


def _between_prose(text: str, begin: int, end: int) -> tuple[int, int]:
    """The last stretch without prose that defines a model; all of the text if there is none."""
    prose = _prose_lines(text[begin:end])
    if not prose:
        return begin, end
    starts = [begin, *(begin + stop for _, stop in prose)]
    stops = [*(begin + start for start, _ in prose), end]
    for start, stop in reversed(list(zip(starts, stops, strict=True))):
        if _defines_model(text[start:stop]):
            kept = text[start:stop]
            leading = len(kept) - len(kept.lstrip("\r\n"))
            return start + leading, start + len(kept.rstrip())
    return begin, end
