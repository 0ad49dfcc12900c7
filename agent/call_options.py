"""The model options that an agent may have, and which of them are stored with its spec.

A program that can write to the store could change stored options, so only options that say how a model answers are stored.
Options that say where a call goes, with which headers or to which callback, stay in the app, where the worker reads them.
"""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from holdfast.conversation.terms.spec import STORED_OPTIONS
from holdfast.conversation.text.jsontext import JsonText, dumps, loads
from holdfast.errors import ConfigurationError

from . import checks

_RESERVED = {
    "messages": "what the model reads is the conversation; use instructions= and start(text)",
    "tools": "use Agent(tools=[...])",
    "stream": "leave it out: replies are always streamed",
    "model": "use Agent(model=...)",
    "num_retries": "leave it out: Holdfast retries model calls itself",
    "max_retries": "leave it out: Holdfast retries model calls itself",
    "timeout": "use limits=Limits(model_timeout_s=...)",
}
_SECRET_NAME = re.compile(
    r"api_?key|access_?key|private_?key|subscription_?key|account_?key|session_?key|secret|passw(or)?d|passphrase|credential"
    r"|authorization|^auth$|cookie|connection_?string|^sas_"
    r"|^token$|(access|auth|session|bearer|refresh|security|id|ad|api|bot|jwt|hf|huggingface|github|gitlab)_token$"
)
_SECRET_VALUE = re.compile(
    r"^(Bearer|Basic)\s+\S{8,}|\bsk-[\w-]{16,}|\w+://[^/@\s]*:[^/@\s]+@|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\b(AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[\w-]{30,}|\b(gh[pousr]|glpat|hf|gsk)[_-]\w{20,}|\bxox[abprs]-[\w-]{10,}"
    r"|\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+"
)
_TOKEN = re.compile(r"e[wy][\w-]{8,4096}(?=\.[\w-]*\.)")  # the possible header of a JSON Web Token: `{` in base64
_SCHEMA = frozenset({"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "properties"})
"""Every JSON Schema has one of these keys. Names in a schema (`response_format`) describe fields, not credentials."""
_FIX = "set it in the environment (such as OPENAI_API_KEY) and let App(env=[...]) pass it on"


def checked(options: Any, field: str) -> tuple[JsonText, dict[str, Any]]:
    """The JSON text of the stored options, and by name the options that stay with the app."""
    text = checks.json_object(options, field)
    values = loads(text)
    for name, fix in _RESERVED.items():
        if name in values:
            raise ConfigurationError(f"{field}.{name}", "Holdfast sets it", fix)
    _refuse_credentials(values, field)
    own = {name: value for name, value in values.items() if name not in STORED_OPTIONS}
    if own:
        text = dumps({name: value for name, value in values.items() if name in STORED_OPTIONS})
    return text, own


def _refuse_credentials(value: Any, field: str, *, secret: bool = False) -> None:
    """Refuse strings and numbers under a credential's name, at any depth, and strings that look like a credential."""
    if isinstance(value, Mapping):
        within = secret and not _SCHEMA & value.keys()
        for name, child in value.items():
            named = _SECRET_NAME.search(name.lower().replace("-", "_")) is not None
            _refuse_credentials(child, f"{field}.{name}", secret=within or named)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            _refuse_credentials(child, f"{field}[{index}]", secret=secret)
    elif value is not None and not isinstance(value, bool) and (secret or _looks_secret(value)):
        problem = "it is a credential, or looks like one, and would stand in the app's source"
        raise ConfigurationError(field, problem, _FIX)


def _looks_secret(value: Any) -> bool:
    return isinstance(value, str) and (_SECRET_VALUE.search(value) is not None or any(map(_is_header, _TOKEN.findall(value))))


def _is_header(part: str) -> bool:
    """Whether a text is the header of a JSON Web Token, signed, encrypted or neither: a JSON object in base64."""
    try:
        return isinstance(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))), dict)
    except ValueError:
        return False
