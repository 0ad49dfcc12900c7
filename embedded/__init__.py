"""The embedded stack, the default for a newcomer: a home, its Redis server and its Ray.

`home` is the directory with all data. `local_redis` and `local_ray` start, join and stop the two servers, `revival` restarts a
Redis server that died, and `ray_logs` bounds Ray's logs. Production uses its own Redis and Ray, and imports nothing here.
"""

__all__: list[str] = []
