"""The verbs that only read and write hashes, shared by the stores on Redis and in memory."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress

from holdfast.conversation import AgentSpec
from holdfast.errors import CorruptStore, NewerRecord

from . import codec
from .access import ApiKey, ApiKeyList, UnreadableApiKey
from .app_record import AppRecord
from .codec import Payloads
from .directory import BREAKERS_MS, NO_RULES, Binding, BrokenApp, OpenBreakers
from .keys import Keys
from .lists import TROUBLE_MS, Trouble

SINCE = "|since"
"""The suffix of the field with the time since which workers cannot run an app; no app's path ends with it."""

Put = tuple[str, str, str | bytes | int]
"""A key, a field, and the value to write."""


class Hashes(ABC):
    """Verbs of `Directory`, `ApiKeys` and `Lists` on the hashes of one namespace."""

    payloads: Payloads
    _keys: Keys
    _encrypted = False

    @abstractmethod
    async def now(self) -> int:
        """See `Database.now`."""

    @abstractmethod
    async def _get(self, *places: tuple[str, str]) -> Sequence[bytes | None]:
        """The values at these keys and fields, as of one moment."""

    @abstractmethod
    async def _all(self, *keys: str) -> Sequence[Mapping[str, bytes]]:
        """The fields of these hashes, as of one moment."""

    @abstractmethod
    async def _put(self, *puts: Put, new: Sequence[Put] = ()) -> bool:
        """Write fields at once, those of `new` only where absent; true if the last one was absent."""

    @abstractmethod
    async def _drop(self, *places: tuple[str, str]) -> bool:
        """Remove fields at once; true if the first one was there."""

    async def encrypted(self) -> bool:
        return (await self._get((self._keys.meta("layout"), "encrypted")))[0] is not None

    async def _note_encryption(self) -> None:
        """Note in the layout, before the first payload is written, that payloads are encrypted, but not by which cipher."""
        if not self._encrypted:
            await self._put((self._keys.meta("layout"), "encrypted", 1))
            self._encrypted = True

    async def put_app(self, record: AppRecord, specs: Sequence[AgentSpec], rules: Mapping[str, str] = NO_RULES) -> None:
        meta, seal = self._keys.meta, self.payloads.seal
        puts: list[Put] = [(meta("specs"), spec.digest, seal(codec.encode(spec), "spec", spec.digest)) for spec in specs]
        puts += [(meta("rules"), digest, seal(text.encode(), "rules", digest)) for digest, text in rules.items()]
        if self.payloads.cipher is not None:
            await self._note_encryption()
        await self._put(*puts, (meta("apps"), record.app, codec.encode(record)))

    async def app(self, path: str) -> AppRecord | None:
        (data,) = await self._get((self._keys.meta("apps"), path))
        return codec.decode(AppRecord, data) if data is not None else None

    async def apps(self) -> Sequence[AppRecord]:
        (found,) = await self._all(self._keys.meta("apps"))
        return codec.readable_apps(found.values())

    async def spec(self, digest: str) -> AgentSpec | None:
        (data,) = await self._get((self._keys.meta("specs"), digest))
        if data is None:
            return None
        return codec.decode(AgentSpec, self.payloads.open(data, "spec", digest)).stored_as(digest)

    async def rules(self, digest: str) -> str | None:
        (data,) = await self._get((self._keys.meta("rules"), digest))
        try:
            return self.payloads.open(data, "rules", digest).decode() if data is not None else None
        except UnicodeDecodeError as error:
            raise CorruptStore(f"the permission rules {digest:.16} are not text ({error!s:.100})") from None

    async def put_problem(self, path: str, problem: str | None) -> None:
        key, since = self._keys.meta("problems"), f"{path}{SINCE}"
        if problem is None:
            await self._drop((key, path), (key, since))
        else:
            text = self.payloads.seal_text(problem, "problem", path)
            await self._put((key, path, text), new=[(key, since, await self.now())])

    async def problem(self, path: str) -> str | None:
        (text,) = await self._get((self._keys.meta("problems"), path))
        return self.payloads.open_text(text, "problem", path) if text is not None else None

    async def broken_apps(self) -> Sequence[BrokenApp]:
        (said,) = await self._all(self._keys.meta("problems"))
        found = [
            BrokenApp(path, self.payloads.open_text(text, "problem", path), _moment(said.get(f"{path}{SINCE}")))
            for path, text in said.items()
            if not path.endswith(SINCE)
        ]
        return sorted(found, key=lambda broken: (broken.since or 0, broken.app))

    async def note_breakers(self, worker: str, open_ones: Mapping[tuple[str, str], int]) -> None:
        key, now = self._keys.meta("breakers"), await self.now()
        if open_ones:
            await self._put((key, worker, codec.pack([now, [[*one, count] for one, count in open_ones.items()]])))
            return
        (notes,) = await self._all(key)  # with its own note a worker takes back those that hold no more
        past = [name for name, note in notes.items() if name == worker or not _breakers(name, note, now)]
        if past:
            await self._drop(*((key, name) for name in past))

    async def open_breakers(self) -> Sequence[OpenBreakers]:
        now, (notes,) = await self.now(), await self._all(self._keys.meta("breakers"))
        found = [one for worker, note in notes.items() for one in _breakers(worker, note, now)]
        return sorted(found, key=lambda one: (one.worker, one.model, one.state))

    async def hosts(self, actor: str, conversation_id: str | None) -> None:
        key = self._keys.meta("hosting")
        await (self._drop((key, actor)) if conversation_id is None else self._put((key, actor, conversation_id)))

    async def hosted(self, actor: str) -> str | None:
        (found,) = await self._get((self._keys.meta("hosting"), actor))
        return found.decode() if found is not None else None

    async def generation(self, worker: str) -> int:
        (found,) = await self._get((self._keys.meta("generations"), worker))
        return int(found or 0)

    async def succeed(self, worker: str, generation: int) -> None:
        await self._put((self._keys.meta("generations"), worker, generation))

    async def binding(self) -> Binding | None:
        (found,) = await self._all(self._keys.meta("cluster"))
        cluster, address, at = (found.get(name) for name in ("cluster", "address", "at"))
        if cluster is None:
            return None
        with suppress(ValueError):  # raised for bytes that are not text, or too many digits
            if address is not None and at is not None and at.isdigit():
                return Binding(cluster.decode(), address.decode(), max(await self.now() - int(at), 0))
        raise CorruptStore("the binding cannot be read")

    async def serving(self) -> str | None:
        (release,) = await self._get((self._keys.meta("release"), "release"))
        return release.decode(errors="replace") if release is not None else None

    async def withhold(self, where: str, *, lift: bool = False) -> bool:
        key = self._keys.meta("withheld")
        return await self._drop((key, where)) if lift else await self._put(new=[(key, where, await self.now())])

    async def withheld(self) -> Mapping[str, int]:
        (found,) = await self._all(self._keys.meta("withheld"))
        try:
            return {where: int(since) for where, since in found.items()}
        except ValueError as error:
            raise CorruptStore(f"{self._keys.meta('withheld')} holds something other than times ({error!s:.100})") from error

    async def troubles(self) -> Sequence[Trouble]:
        now, (found,) = await self.now(), await self._all(self._keys.meta("troubles"))
        fresh = [
            Trouble(name, self.payloads.open_text(one[2], "trouble", name), one[0])
            for name, one in ((name, parts_of(record)) for name, record in found.items())
            if one is not None and one[1] > now - TROUBLE_MS
        ]
        return sorted(fresh, key=lambda trouble: trouble.since)

    async def api_key(self, key_id: str) -> ApiKey | None:
        data, at = await self._get(*((key, key_id) for key in self._of_keys))
        return _api_key(data, at) if data is not None else None

    async def api_keys(self) -> ApiKeyList:
        records, times = await self._all(*self._of_keys)
        keys, unreadable = [], []
        for key_id, data in records.items():
            try:
                keys.append(_api_key(data, times.get(key_id)))
            except (CorruptStore, NewerRecord) as error:
                unreadable.append(UnreadableApiKey(key_id, str(error)))
        return ApiKeyList(tuple(sorted(keys, key=lambda key: (key.created_at, key.key_id))), tuple(sorted(unreadable)))

    async def remove_api_key(self, key_id: str) -> bool:
        places = [(key, key_id) for key in self._of_keys]
        stood, _ = await self._get(*places)  # read first: a repeated removal would find nothing
        await self._drop(*places)
        return stood is not None

    @property
    def _of_keys(self) -> tuple[str, str]:
        return self._keys.meta("api-keys"), self._keys.meta("api-keys-used")


def parts_of(trouble: bytes) -> tuple[int, int, bytes] | None:
    """When a trouble began and was last met (ms UTC), and its reason; None if the record is unreadable."""
    since, _, rest = trouble.partition(b"|")
    last, _, reason = rest.partition(b"|")
    return (int(since), int(last), reason) if since.isdigit() and last.isdigit() else None


def _breakers(worker: str, note: bytes, now: int) -> Sequence[OpenBreakers]:
    """The breakers of a worker by its note; none of a note that no longer holds, or cannot be read."""
    try:
        at, found = codec.unpack(note)
        return [
            OpenBreakers(worker, str(model), str(state), int(count)) for model, state, count in found if at > now - BREAKERS_MS
        ]
    except (CorruptStore, TypeError, ValueError):
        return []


def _api_key(data: bytes, at: bytes | None) -> ApiKey:
    used_at = None if at is None else codec.number_of(at, "the last use of an API key")
    return codec.decode(ApiKey, data).model_copy(update={"used_at": used_at})


def _moment(text: bytes | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
