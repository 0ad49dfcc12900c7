"""What may stand in an agent's model options: they are stored as data, so no credential may be among them."""

import re
from collections.abc import Mapping
from typing import Any

from holdfast.conversation.errors import ConfigurationError
from holdfast.conversation.jsontext import JsonText, loads

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
    r"api_?key|access_?key|private_?key|secret|password|passwd|credential|authorization|^auth$|cookie"
    r"|^token$|(access|auth|session|bearer|refresh|security|id|ad|api|hf|huggingface|github)_token$"
)
_SECRET_VALUE = re.compile(r"^(Bearer|Basic)\s+\S{8,}|^sk-[\w-]{16,}$|^\w+://[^/@\s]+:[^/@\s]+@")
_FIX = "set it in the environment (such as OPENAI_API_KEY) and let App(env=[...]) pass it on"


def checked(options: Any, field: str) -> JsonText:
    """The options' JSON text.

    Raises:
        ConfigurationError: They are no JSON object, set what Holdfast sets, or hold a credential.
    """
    text = checks.json_object(options, field)
    values = loads(text)
    for name, fix in _RESERVED.items():
        if name in values:
            raise ConfigurationError(f"{field}.{name}", "Holdfast sets it", fix)
    _refuse_credentials(values, field)
    return text


def _refuse_credentials(value: Any, field: str) -> None:
    if isinstance(value, Mapping):
        for name, child in value.items():
            if _holds_secret(name, child):
                problem = "it is a credential, and an agent is stored as data, readable by whoever reads the store"
                raise ConfigurationError(f"{field}.{name}", problem, _FIX)
            _refuse_credentials(child, f"{field}.{name}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            _refuse_credentials(child, f"{field}[{index}]")
    elif isinstance(value, str) and _SECRET_VALUE.search(value):
        raise ConfigurationError(field, "it looks like a credential, and an agent is stored as data", _FIX)


def _holds_secret(name: str, value: Any) -> bool:
    """Whether it is a secret by its name; in a JSON Schema (`response_format`) such a name only describes a field."""
    if value is None or isinstance(value, bool | dict | list):
        return False
    return _SECRET_NAME.search(name.lower().replace("-", "_")) is not None
