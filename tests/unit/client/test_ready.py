"""Whether commands can be carried out: a cluster serves the store, and its sweeper lives."""

import pytest
from stores import InMemory

from holdfast.client import AsyncClient, ClusterStopped, ClusterUnavailable
from holdfast.client.stack_gateway import SILENT_MS, StackGateway
from holdfast.persistence import EVERYWHERE, MemoryStore


async def test_a_client_is_ready_while_a_cluster_renews_its_binding():
    now = [1_700_000_000_000]
    store = MemoryStore(clock=lambda: now[0])
    client = AsyncClient(StackGateway(InMemory(store), timeout_s=10))
    with pytest.raises(ClusterUnavailable, match="no cluster serves the store"):
        await client.ready()

    await store.bind("cluster-1", "10.0.0.1:6379", SILENT_MS)
    now[0] += SILENT_MS
    await client.ready()
    now[0] += 1
    with pytest.raises(ClusterUnavailable, match=r"the cluster at 10\.0\.0\.1:6379 has been silent for 15001 ms"):
        await client.ready()


async def test_a_client_of_a_stopped_cluster_is_not_ready():
    store = MemoryStore()
    await store.bind("cluster-1", "10.0.0.1:6379", SILENT_MS)
    await store.withhold("node-1")
    client = AsyncClient(StackGateway(InMemory(store), timeout_s=10))
    await client.ready()
    await store.withhold(EVERYWHERE)
    with pytest.raises(ClusterStopped):
        await client.ready()


async def test_a_client_whose_own_cluster_is_gone_is_not_ready_though_another_serves_the_store():
    store = MemoryStore()
    await store.bind("cluster-1", "10.0.0.1:6379", SILENT_MS)
    stack = InMemory(store)
    stack.absent = "the cluster at 10.0.0.2:6379 is gone, and no other was joined yet"
    with pytest.raises(ClusterUnavailable, match=r"10\.0\.0\.2:6379 is gone"):
        await AsyncClient(StackGateway(stack, timeout_s=10)).ready()
