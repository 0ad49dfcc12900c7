"""Counts what a process does for its turns: every Python process whose PYTHONPATH names this folder loads it at its start.

It counts commands, scripts, round trips and bytes of Redis' client, actor calls and pickles of Ray, pickles of Holdfast's own,
and models of pydantic that were validated from outside. The counts of each process stand in a file of the folder TURN_COUNTS.
Libraries are not imported for it: once a process has imported one, its functions are replaced by counting ones.
"""

import asyncio
import functools
import hashlib
import json
import os
import pickle
import sys
import threading
import time
from collections import Counter
from pathlib import Path

LOOK_EVERY_S = 0.05
counts: Counter[str] = Counter()


def commands(packed):
    """The commands in what is sent to Redis, each by its name; a script by its digest."""
    at = 0
    while at < len(packed):
        end = packed.index(b"\r\n", at)
        parts, at = int(packed[at + 1 : end]), end + 2
        words = []
        for _ in range(parts):
            end = packed.index(b"\r\n", at)
            size = int(packed[at + 1 : end])
            words.append(packed[end + 2 : end + 2 + size])
            at = end + 4 + size
        name = words[0].decode().upper()
        if name == "EVALSHA":
            yield f"script {words[1].decode()}"
        elif name == "EVAL":
            yield f"script {hashlib.sha1(words[1]).hexdigest()}"  # noqa: S324 - what EVALSHA takes
        else:
            yield name


def around(owner, name, note):
    """Replace a function by one that notes each call's arguments and result."""
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def counting(*args, **kwargs):
        result = inner(*args, **kwargs)
        note(args, result)
        return result

    setattr(owner, name, counting)


def sent(args, _):
    packed = args[1]
    packed = packed.encode() if isinstance(packed, str) else packed if isinstance(packed, bytes) else b"".join(packed)
    counts["redis: round trips"] += 1
    counts["redis: bytes sent"] += len(packed)
    counts.update(f"redis: {name}" for name in commands(packed))


def received(args, _):
    counts["redis: bytes received"] += len(args[1])  # nothing else in the stack reads from a stream


def validated(args, _):
    kind = args[0] if isinstance(args[0], type) else type(args[0])
    counts[f"validated: {kind.__module__.partition('.')[0]}"] += 1


def one(name):
    def note(*_):
        counts[name] += 1

    return note


def of_redis(module):
    around(module.AbstractConnection, "send_packed_command", sent)
    around(asyncio.StreamReader, "feed_data", received)


def of_calls(module):
    around(module.ActorHandle, "_actor_method_call", lambda args, _: one(f"ray: {args[1]}")())


def of_pickles(module):
    around(module.SerializationContext, "_serialize_to_pickle5", one("pickle: by Ray"))
    around(module.SerializationContext, "_deserialize_pickle5_data", one("unpickle: by Ray"))


def of_models(module):
    around(module.BaseModel, "__init__", validated)
    read = module.BaseModel.__dict__["model_validate"].__func__

    def model_validate(cls, *args, **kwargs):
        validated((cls,), None)
        return read(cls, *args, **kwargs)

    module.BaseModel.model_validate = classmethod(model_validate)


WANTED = {
    ("redis.asyncio.connection", "AbstractConnection"): of_redis,
    ("ray.actor", "ActorHandle"): of_calls,
    ("ray._private.serialization", "SerializationContext"): of_pickles,
    ("pydantic.main", "BaseModel"): of_models,
}


def watch(folder):
    """Replace what has been imported meanwhile, and write the counts where they have changed; for ever."""
    wanted, written = dict(WANTED), 0
    while True:
        for (module, name), replace in list(wanted.items()):
            found = sys.modules.get(module)
            if hasattr(found, name) and not getattr(getattr(found, "__spec__", None), "_initializing", False):
                replace(found)
                del wanted[module, name]
        if counts.total() != written:
            written = counts.total()
            command = Path("/proc/self/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            file = folder / f"{os.getpid()}.json"
            file.with_suffix(".new").write_text(json.dumps({"command": command, "counts": dict(counts)}))
            file.with_suffix(".new").replace(file)
        time.sleep(LOOK_EVERY_S)


if os.environ.get("TURN_COUNTS"):
    around(pickle, "dumps", one("pickle: by Holdfast"))
    around(pickle, "loads", one("unpickle: by Holdfast"))
    threading.Thread(target=watch, args=(Path(os.environ["TURN_COUNTS"]),), daemon=True).start()
