"""The stub model server as a process of its own, the same for every contender: `python -m benchmarks.stub`."""

import signal
import sys

from holdfast.testing import ModelServer, call, calls, say


def script(request: dict) -> dict:
    """The n-th user message says how many calls its turn makes at once; with results there, the turn ends.

    After the word `delegate` they are calls of `consult`; a message that begins with `answer` is answered at once.
    """
    last = request["messages"][-1]
    if last["role"] == "tool" or last["content"].startswith("answer"):
        return say("Thank you.")
    if last["content"].startswith("delegate"):
        return calls(*(call("consult", {"task": f"answer {one}"}) for one in range(int(last["content"].split()[1]))))
    return calls(*(call("ask", {"question": str(number)}) for number in range(int(last["content"].split()[-1]))))


def main() -> None:
    """Print the URL, and how many requests came at each line of standard input; serve until SIGTERM or its end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with ModelServer(script=script) as server:
        print(server.url, flush=True)
        for _ in sys.stdin:
            print(len(server.requests), flush=True)


if __name__ == "__main__":
    main()
