"""What a process that calls models need not hold."""

import json
import subprocess
import sys
import textwrap

from holdfast.testing import ModelServer, say

CALLS = """
    import asyncio, json, sys
    from holdfast.actors.worker import model  # as in a worker, before anything of litellm
    import litellm

    loaded = lambda: "litellm.litellm_core_utils.default_encoding" in sys.modules

    async def call():
        message = {"role": "user", "content": "Hello"}
        asked = dict(model="openai/gpt-4o-mini", messages=[message], stream=True, stream_options={"include_usage": True})
        return [chunk async for chunk in await litellm.acompletion(**asked, api_base=sys.argv[1], api_key="x")]

    chunks = asyncio.run(call())
    without = loaded()
    encoded = litellm.main._get_encoding().encode("Hello")
    counted = litellm.cost_calculator.token_counter(model="claude-2", text="Hello"), len(encoded)
    print(json.dumps({"chunks": len(chunks), "loaded": without, "counted": counted, "then": loaded()}))
"""


def test_a_call_loads_no_tokenizer_unless_something_is_counted():
    with ModelServer(script=[say("Hi")]) as server:
        command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(CALLS), server.url]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])

    assert found["chunks"] > 0
    assert not found["loaded"]
    assert min(found["counted"]) > 0
    assert found["then"]
