"""What Ray's control store keeps, on a control store that is a dictionary."""

import pytest
from ray.exceptions import RpcError

from holdfast.actors import vault
from holdfast.actors.actor_settings import StoreAddress
from holdfast.actors.vault import Vault
from holdfast.errors import ClusterUnavailable, ConfigurationError

STORE = StoreAddress("redis://x", "holdfast", "store-1")
KEY = b"k" * 32


@pytest.fixture
def kept(monkeypatch):
    """What the control store has, by namespace and name."""
    found = {}

    def put(name, value, overwrite, *, namespace):
        there = (namespace, name) in found
        if overwrite or not there:
            found[namespace, name] = value
        return there

    def names(prefix, *, namespace):
        return [name.encode() for space, name in found if space == namespace and name.startswith(prefix)]

    monkeypatch.setattr(vault.ray, "is_initialized", lambda: True)
    monkeypatch.setattr(vault, "_internal_kv_get", lambda name, *, namespace: found.get((namespace, name)))
    monkeypatch.setattr(vault, "_internal_kv_put", put)
    monkeypatch.setattr(vault, "_internal_kv_del", lambda name, *, namespace: found.pop((namespace, name)))
    monkeypatch.setattr(vault, "_internal_kv_list", names)
    return found


def test_the_first_key_stays_whoever_comes_after(kept):
    assert Vault(STORE).key() is None
    assert Vault(STORE).ensure_key(KEY, must_be=False) == KEY
    assert Vault(STORE).ensure_key(b"o" * 32, must_be=False) == KEY
    assert Vault(STORE).ensure_key(None, must_be=False) == KEY
    assert Vault(STORE).key() == KEY


def test_of_two_who_make_a_key_at_once_both_have_the_one_that_stands(kept, monkeypatch):
    one, other = Vault(STORE), Vault(STORE)
    assert other.ensure_key(None, must_be=False) == Vault(STORE).key()
    monkeypatch.setattr(one, "key", iter([None, Vault(STORE).key()]).__next__)
    assert one.ensure_key(KEY, must_be=False) == other.key() != KEY


def test_servers_have_a_key_of_their_own_which_the_first_of_them_makes(kept, monkeypatch):
    made = Vault(STORE).servers_key()
    assert Vault(STORE).servers_key() == made != Vault(STORE).ensure_key(KEY, must_be=False)
    assert len(made) == len(KEY)
    assert Vault(StoreAddress("redis://x", "other", "store-1")).servers_key() != made
    kept.clear()
    monkeypatch.setattr(vault, "_internal_kv_put", lambda *_, **__: None)
    with pytest.raises(ClusterUnavailable, match="keeps nothing"):
        Vault(STORE).servers_key()


def test_a_key_that_must_be_is_refused_where_the_cluster_has_another_and_neither_is_said(kept):
    Vault(STORE).ensure_key(KEY, must_be=True)
    with pytest.raises(ConfigurationError, match=r"app_key: .*another key; set HOLDFAST_APP_KEY") as refused:
        Vault(STORE).ensure_key(b"o" * 32, must_be=True)
    assert "kkk" not in str(refused.value)
    assert "ooo" not in str(refused.value)


def test_a_key_at_random_is_long_and_each_stores_own(kept):
    other = StoreAddress("redis://x", "other", "store-1")
    keys = {Vault(address).ensure_key(None, must_be=False) for address in (STORE, other)}
    assert [len(key) for key in keys] == [32, 32]


def test_an_apps_variables_are_kept_for_its_code_that_stands_and_forgotten_for_others(kept):
    kept_by = Vault(STORE)
    kept_by.ensure_key(KEY, must_be=False)
    kept_by.put_environment("shop:app", "code-1", {"A": "1"})
    kept_by.put_environment("shop:app2", "code-1", {"A": "3"})
    kept_by.put_environment("shop:app", "code-2", {"A": "2"})
    assert kept_by.environment("shop:app", "code-1") == {"A": "1"}
    kept_by.forget_others("shop:app", "code-2")
    assert [kept_by.environment("shop:app", code) for code in ("code-1", "code-2")] == [{}, {"A": "2"}]
    assert kept_by.environment("shop:app2", "code-1") == {"A": "3"}
    assert kept_by.key() == KEY


def test_a_cluster_that_does_not_answer_is_unavailable_and_so_is_none(kept, monkeypatch):
    def fails(name, *, namespace):
        raise RpcError("deadline exceeded")

    monkeypatch.setattr(vault, "_internal_kv_get", fails)
    with pytest.raises(ClusterUnavailable, match="control store"):
        Vault(STORE).key()
    monkeypatch.setattr(vault.ray, "is_initialized", lambda: False)
    with pytest.raises(ClusterUnavailable, match="no Ray cluster"):
        Vault(STORE).key()
