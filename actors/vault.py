"""The vault of a store: its keys and its apps' variables, kept by Ray's control store and never by Redis.

Every process in the cluster can read the vault: Ray's control process has the variables of its workers anyway.
"""

import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.exceptions import RayError
from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_list, _internal_kv_put

from holdfast.conversation.ids import digest
from holdfast.errors import ClusterUnavailable, ConfigurationError

from .actor_settings import RAY_NAMESPACE, StoreAddress

KEY_BYTES = 32


class Vault:
    """The vault of one store, whose methods all block; `known` is the key, if it has been read."""

    def __init__(self, address: StoreAddress) -> None:
        self._prefix = f"{address.namespace}:{address.store_id}:"
        self.known: bytes | None = None

    def key(self) -> bytes | None:
        """The key that app records are signed with, which never changes; None if the store has none yet."""
        if self.known is None:
            self.known = self._get("key")
        return self.known

    def ensure_key(self, brought: bytes | None, *, must_be: bool) -> bytes:
        """The key that app records are signed with; if there is none, the one that was `brought`, or a random one.

        `ConfigurationError` if it `must_be` the one that was brought, and is not.
        """
        key = self.known = self.key() or self._ensured("key", brought or secrets.token_bytes(KEY_BYTES))
        if must_be and brought is not None and not secrets.compare_digest(key, brought):
            problem = "this cluster already signs app records with another key"
            fix = "set HOLDFAST_APP_KEY to that one everywhere, or nowhere; a Ray that is started anew takes a new one"
            raise ConfigurationError("app_key", problem, fix)
        return key

    def servers_key(self) -> bytes:
        """The key with which servers sign for verified callers, made on first use. Each Ray cluster has its own."""
        return self._get("servers") or self._ensured("servers", secrets.token_bytes(KEY_BYTES))

    def put_environment(self, app: str, code: str, values: Mapping[str, str]) -> None:
        """Keep the variables for an app's workers."""
        self._put(_entry(app, code), json.dumps(dict(values)).encode(), overwrite=True)

    def environment(self, app: str, code: str) -> dict[str, str]:
        """The variables for this code of an app; empty if there are none."""
        found = self._get(_entry(app, code))
        return dict(json.loads(found)) if found is not None else {}

    def forget_others(self, app: str, code: str) -> None:
        """Drop the variables for all other code of the app."""
        for raw in self._asked(_internal_kv_list, _entry(app, "")):
            name = raw.decode().removeprefix(self._prefix)
            if name != _entry(app, code):
                self._asked(_internal_kv_del, name)

    def _get(self, name: str) -> bytes | None:
        found: bytes | None = self._asked(_internal_kv_get, name)
        return found

    def _ensured(self, name: str, key: bytes) -> bytes:
        self._put(name, key, overwrite=False)
        found = self._get(name)
        if found is None:
            raise ClusterUnavailable("its control store keeps nothing")
        return found

    def _put(self, name: str, value: bytes, *, overwrite: bool) -> None:
        self._asked(_internal_kv_put, name, value, overwrite)

    def _asked(self, ask: Callable[..., Any], name: str, *more: object) -> Any:
        if not ray.is_initialized():
            raise ClusterUnavailable("this process is in no Ray cluster (any more)")
        try:
            return ask(f"{self._prefix}{name}", *more, namespace=RAY_NAMESPACE)
        except (RayError, OSError) as error:
            raise ClusterUnavailable(f"its control store does not answer ({type(error).__name__})") from error


def _entry(app: str, code: str) -> str:
    return f"environment:{digest(app)}:{code}"
