"""The result envelope: the JSON text that a model reads as a tool's result, always written by Holdfast.

`{"ok": true, "result": ...}` or `{"ok": false, "error": ...}`; a client's result carries a third key, `"untrusted": true`.
Values from people, clients and tools stand inside as JSON, so that none of them can pose as an envelope.
"""

from . import jsontext
from .jsontext import JsonText


def success(result: JsonText, *, untrusted: bool = False) -> JsonText:
    """The envelope of a result, itself given as JSON text."""
    mark = ',"untrusted":true' if untrusted else ""
    return f'{{"ok":true,"result":{result}{mark}}}'


def failure(error: str, *, untrusted: bool = False) -> JsonText:
    """The envelope of an error that the model can read."""
    mark = ',"untrusted":true' if untrusted else ""
    clean = error.encode("utf-8", "replace").decode()
    return f'{{"ok":false,"error":{jsontext.dumps(clean)}{mark}}}'
