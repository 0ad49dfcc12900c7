"""The embedded stack, which a newcomer gets: a home, its Redis server and its Ray.

`home` is the directory with all data, `local_redis` and `local_ray` start, join and stop the two servers, `revival` restarts a
Redis server that died, `ray_logs` bounds Ray's logs. Production names its own Redis and Ray, and imports nothing here.
"""

__all__: list[str] = []
