"""A Ray cluster of several nodes on this machine, as a process: it prints its address and obeys words on its standard input.

It is reachable from this machine only, and only with its token; what its environment says of these must stand before ray is
imported. `RAY_REDIS_ADDRESS` names the Redis that outlives its GCS.
"""

import secrets
import sys
from pathlib import Path

QUICK_TO_NOTICE = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 5}
OTHER = {"node_ip_address": "127.0.0.1", "num_cpus": 4}


def environment(folder: Path, redis_address: str) -> dict[str, str]:
    """What this process, and everybody who joins, must have in the environment."""
    token = folder / "token"
    token.write_text(secrets.token_hex(32))
    token.chmod(0o600)
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_REDIS_ADDRESS": redis_address,
        **{f"RAY_{name}": str(value) for name, value in QUICK_TO_NOTICE.items()},
    }


def main(folder: str, count: str) -> None:
    """Start so many nodes, then do what is asked until the input ends."""
    import ray._private.utils  # noqa: PLC0415 - see above
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - as above

    ray._private.utils.write_ray_address = lambda *_: None  # it would tell this address to everybody on the machine
    head = {"temp_dir": folder, "node_ip_address": "127.0.0.1", "include_dashboard": False, "num_cpus": 4}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    others = {node.node_id: node for node in (cluster.add_node(**OTHER) for _ in range(int(count) - 1))}
    print(cluster.address, *others, flush=True)  # noqa: T201 - it is read
    for line in sys.stdin:
        match line.split():
            case ["kill", "raylet", node_id]:
                others[node_id].kill_raylet()
            case ["kill", "gcs"]:
                cluster.head_node.kill_gcs_server()
            case ["start", "gcs"]:
                cluster.head_node.start_gcs_server()
        print("done", flush=True)  # noqa: T201 - as above
    for node in (*others.values(), cluster.head_node):
        node.kill_all_processes(check_alive=False, allow_graceful=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
