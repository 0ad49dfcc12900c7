"""Text in which a person can see every character.

The rule is the standard library's: every character that `str.isprintable` refuses (control and format characters, tags,
surrogates, private and unassigned ones, separators) is escaped. Unicode's default-ignorable code points add letters, marks and
symbols that are drawn as nothing; these are listed here, with the blanks.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

# Printable by category and invisible: Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties, then blank glyphs
# (of Braille, of musical notes, of hieroglyphs, the Khitan filler).
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff"
    "\u2800\U0001d159\U00013441-\U00013446\U00016fe4]"
)
_SPACES = "\u00a0\u202f\u3000"  # ordinary in French and Chinese prose, and they look like spaces
_NO_BREAK = re.compile("[\u00a0\u202f]")  # those that look like the plain space
_JOINERS = "\u200c\u200d"
_STYLES = "\ufe0e\ufe0f"  # variation selectors: the symbol before them is drawn as text or as emoji
# All but printable ASCII and, for speed, the bulk of Latin, Cyrillic, Japanese, Chinese and Korean letters.
_MAY_HIDE = re.compile("[^\x20-\x7e\xa1-\xac\xae-\u034e\u0400-\u052f\u3041-\u3096\u3099-\u30ff\u4e00-\u9fff\uac00-\ud7a3]")
_JOINING_SCRIPTS = re.compile("[\u0600-\u0dff\u1000-\u109f\u1780-\u18af]")  # where a joiner changes how letters are drawn


def without_hidden(text: str, escape: Callable[[str], str], *, kept: str = "") -> str:
    """The text with each invisible character replaced by its escape.

    A joiner or variation selector stays where it draws something: in an emoji, in Arabic or Indic letters. `kept` are invisible
    characters that stay, such as the end of a line.
    """

    def shown(found: "re.Match[str]") -> str:
        char = found[0]
        return char if char in kept or _seen(char) or _draws(text, found.start()) else escape(char)

    return text if text.isascii() and text.isprintable() else _MAY_HIDE.sub(shown, text)


def shows_whole(name: str) -> bool:
    """Whether a person sees every character of a name, and none of its blanks looks like another one."""
    return without_hidden(name, lambda _: "") == name and not _NO_BREAK.search(name)


@lru_cache(maxsize=4096)
def _seen(char: str) -> bool:
    return char in _SPACES or (char.isprintable() and _BLANK.match(char) is None)


def _draws(text: str, at: int) -> bool:
    char, before, after = text[at], text[at - 1 : at], text[at + 1 : at + 2]
    if char in _STYLES:
        return _is_emoji(before) or (before in tuple("0123456789#*") and after == "\u20e3")
    if char not in _JOINERS:
        return False
    if _is_emoji(after):
        return _is_emoji(before) or (before == "\ufe0f" and _is_emoji(text[at - 2 : at - 1]))
    return bool(_JOINING_SCRIPTS.match(before) and _JOINING_SCRIPTS.match(after))


def _is_emoji(char: str) -> bool:
    """Whether a character is a symbol from the arrows on (as nearly all emoji are), an older emoji, or a skin tone."""
    if char < "\u2190":
        return char != "" and char in "\xa9\xae\u203c\u2049\u2122\u2139"
    return (unicodedata.category(char) in ("So", "Sm") or "\U0001f3fb" <= char <= "\U0001f3ff") and _seen(char)
