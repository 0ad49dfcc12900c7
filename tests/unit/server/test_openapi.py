"""The description of the API says of each operation what it takes and replies."""

import re

from holdfast.server.app import OPERATIONS


async def test_every_operation_is_described_under_a_name_of_its_own(api):
    told = await api("GET", "/openapi.json")

    assert told["openapi"].startswith("3.1")
    described = {(method.upper(), path) for path, found in told["paths"].items() for method in found}
    assert described == {(operation.method, operation.path) for operation in OPERATIONS}
    names = [one["operationId"] for found in told["paths"].values() for one in found.values()]
    assert len(names) == len(set(names))


async def test_every_operation_says_what_it_takes_to_call_it(api):
    told = await api("GET", "/openapi.json")
    assert set(told["components"]["securitySchemes"]) == {"bearer"}
    for operation in OPERATIONS:
        wanted = [] if operation.scope is None else [{"bearer": [scope.value for scope in operation.scopes]}]
        wanted += [] if operation.instead is None else [{"bearer": [operation.instead.value]}]
        assert told["paths"][operation.path][operation.method.lower()]["security"] == wanted
    cancelling = told["paths"]["/v1/conversations/{conversation_id}/cancel-pending"]["post"]
    assert cancelling["security"] == [{"bearer": ["start", "decide"]}, {"bearer": ["client"]}]
    assert {operation.name for operation in OPERATIONS if operation.scope is None} == {"health", "ready", "redeem"}


async def test_every_reference_leads_somewhere(api):
    text = (await api.http.get("/openapi.json")).text
    schemas = (await api("GET", "/openapi.json"))["components"]["schemas"]

    assert set(re.findall(r'"#/components/schemas/(\w+)"', text)) <= set(schemas)
    assert {"Problem", "StateReply", "StartBody", "ResolveBody"} <= set(schemas)


async def test_a_path_names_each_of_its_parts_and_keys_are_offered_where_there_are_any(api):
    told = await api("GET", "/openapi.json")
    for operation in OPERATIONS:
        found = told["paths"][operation.path][operation.method.lower()]["parameters"]
        assert {one["name"] for one in found if one["in"] == "path"} == set(re.findall(r"{(\w+)}", operation.path))
        assert ("Idempotency-Key" in [one["name"] for one in found]) == (operation.key is not None)
