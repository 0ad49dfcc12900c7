"""Which cipher a client has: the settings' or the app's, and never two."""

import pytest
import toy_cipher
from toy_cipher import ToyCipher

from holdfast.actors.actor_settings import ActorSettings, StoreAddress
from holdfast.agent import Agent, App
from holdfast.cipher import CipherAt
from holdfast.cli.operated import Operated
from holdfast.client.stack import Stack
from holdfast.client.transport import RayTransport
from holdfast.errors import CipherFailed, CipherMissing, ConfigurationError
from holdfast.persistence import AppRecord, MemoryStore
from holdfast.settings import Settings

PATH = "toy_cipher:cipher"
ENCRYPTING = App(agents=[Agent(name="support")], encrypt=toy_cipher.cipher)
PLAIN = App(agents=[Agent(name="support")])


def settings(**given):
    return Settings.of(redis_url="redis://127.0.0.1:1", ray_address="127.0.0.1:1", **given)


@pytest.mark.parametrize(
    ("cipher", "app", "found"),
    [
        (None, None, None),
        (None, PLAIN, None),
        (PATH, None, PATH),
        (PATH, PLAIN, PATH),
        (None, ENCRYPTING, PATH),
        (PATH, ENCRYPTING, PATH),
    ],
)
def test_the_cipher_is_the_settings_or_the_apps(cipher, app, found):
    at = Stack(settings(cipher=cipher), app).cipher(app)
    assert (at and at.path) == found


def test_a_variable_that_names_another_cipher_than_the_app_is_refused():
    with pytest.raises(ConfigurationError, match="keys:other"):
        Stack(settings(cipher="keys:other"), ENCRYPTING).cipher(ENCRYPTING)


def test_the_variable_names_the_cipher_and_what_is_no_path_is_refused(monkeypatch):
    monkeypatch.setenv("HOLDFAST_CIPHER", PATH)
    assert settings().cipher_at.path == PATH
    monkeypatch.setenv("HOLDFAST_CIPHER", "keys.py")
    with pytest.raises(ConfigurationError, match="cipher"):
        settings()


async def joined(store):
    """What a client that is about to join a cluster makes of a store; there is no cluster at its address."""
    return await RayTransport.open(store, settings(), "127.0.0.1:1", None, None)


async def encrypted():
    store = MemoryStore(cipher=ToyCipher())
    await store.put_app(AppRecord(app="shop:app", code="k"), ())
    assert await store.encrypted()
    return store


async def test_a_client_without_the_cipher_is_told_so_before_it_joins_or_changes_anything():
    store = await encrypted()
    store.payloads.cipher = None
    with pytest.raises(CipherMissing, match="HOLDFAST_CIPHER"):
        await joined(store)
    assert await store.serving() is None


async def test_a_client_whose_cipher_does_not_work_is_told_so_before_it_joins_or_changes_anything():
    store = await encrypted()
    store.payloads.cipher = CipherAt("no_such_module:cipher")
    with pytest.raises(CipherFailed, match="no_such_module"):
        await joined(store)
    assert await store.serving() is None


async def test_an_operator_makes_actors_with_the_cipher_or_none():
    """`holdfast drain` takes no office; what it makes elsewhere must read and write what the others do."""
    store = await encrypted()
    where = ActorSettings(StoreAddress("redis://x", store.namespace, store.store_id))
    store.payloads.cipher = None
    with pytest.raises(CipherMissing, match="HOLDFAST_CIPHER"):
        await Operated(store, where, None).making()
    store.payloads.cipher = CipherAt(PATH)

    made = await Operated(store, where, None).making()

    assert made.store.cipher.path == PATH
    assert made.store.cipher == CipherAt(PATH).found()
    assert made.release == where.release


async def test_an_operator_of_what_is_not_encrypted_needs_no_cipher():
    store = MemoryStore()
    where = ActorSettings(StoreAddress("redis://x", store.namespace, store.store_id))
    assert await Operated(store, where, None).making() == where
