"""Text reduced to what distinguishes it: without case, width, accents, invisible characters and look-alike letters."""

import unicodedata
from functools import lru_cache

from holdfast.visible import without_hidden

# Letters of other scripts that look like ASCII, from the Unicode confusables that occur in names and commands. Each
# is the folded form of its letter: small, without accents.
_ALIKE = {
    # Cyrillic; some small letters stand for capitals that look like Latin ones
    **dict(zip("авгеһікмнопрсԁӏјѕтухԛԝьѵүґӕ", "abrehikmhonpcdljstyxqwbvyra", strict=True)),
    # Greek
    **dict(zip("αβγεηικμνορτυχωϲϳ", "abyenikuvoptuxwcj", strict=True)),
    # Latin letters that do not decompose, and phonetic letters
    **dict(zip("ıȷɡɑɩʟɪʀꜱᴀᴄᴅᴇᴊᴋᴍɴᴏᴘᴛᴜᴠᴡᴢłøđħŧ", "ijgailirsacdejkmnoptuvwzlodht", strict=True)),
    # Armenian
    **dict(zip("ոսօհցզյքա", "nuohgqjpw", strict=True)),
    # The Chinese and Japanese full stop, which separates labels of hosts, and punctuation that looks like that of ASCII
    **dict.fromkeys("\u3002\u2024\u00b7", "."),
    **dict.fromkeys("\u2044\u2215\u29f8\u2571", "/"),
    **dict.fromkeys("\u2216\u29f5\u29f9", "\\"),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    **dict.fromkeys("\u2018\u2019\u201b\u2032", "'"),
    **dict.fromkeys("\u201c\u201d\u2033", '"'),
    **dict.fromkeys("\u2236\ua789", ":"),
    **dict.fromkeys("\u037e\u061b", ";"),
    "\u01c0": "|",
    "\u2223": "|",
}
_UNDRAWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Mn", "Me"})
_SPACES = "\t\n\v\f\r"
_NO_CONTROLS = {code: None for code in (*range(32), 127) if chr(code) not in _SPACES}


def skeleton(text: str) -> str:
    """A form of the text that is equal for texts that look alike.

    Each character is folded by itself, so a match of a part of a text also matches that part of the folded text.
    """
    if text.isascii():
        return text.lower().translate(_NO_CONTROLS)
    return "".join(map(_folded, text))


def is_plain(text: str) -> bool:
    """Whether a text is unambiguous: no character is invisible, has a second form, or looks like ASCII punctuation."""
    if text.isascii():
        return text.isprintable()
    if unicodedata.normalize("NFKC", text) != text or without_hidden(text, lambda _: "") != text:
        return False
    return all(char.isascii() or _is_letter(char) for char in text)


def _is_letter(char: str) -> bool:
    said = _folded(char)
    return not char.isspace() and all(one.isalnum() or not one.isascii() for one in said)


@lru_cache(maxsize=8192)
def _folded(char: str) -> str:
    if char in _SPACES:
        return char
    if char in _ALIKE:
        return _ALIKE[char]
    small = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", char).casefold())
    drawn = (one for one in small if unicodedata.category(one) not in _UNDRAWN and _is_seen(one))
    return "".join(_ALIKE.get(one, one) for one in drawn)


def _is_seen(char: str) -> bool:
    return char.isspace() or without_hidden(char, lambda _: "") == char
