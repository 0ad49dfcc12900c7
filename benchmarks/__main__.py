"""`python -m benchmarks [NAME ...] [--quick] [--json PATH] [--write-docs | --draw]`."""

from benchmarks import docs, run, stack

PARTS = {
    "core": "the hot path against its floors",
    "memory": "a live actor, a suspended conversation at rest",
    "pages": "a page of what is pending, by how much is pending",
    "history": "bytes and revival by the length of the history",
    "long_logs": "a page of messages, one turn and one event to an open page, by the length of the history",
    "window": "model calls of a conversation that grows, in a window",
    "command": "`holdfast pending` as a process, the first paint of `holdfast inbox`",
    "server": "what HTTP adds, idle event streams, decisions a second",
    "inbox": "the inbox in a browser, with 1,000 calls that wait",
    "in_flight": "many that wait for a slow model at once, a one-call turn, actors at rest",
    "turn": "what remains of a turn: processor time, round trips, bytes, pickles and validations by process, and rates",
    "rules": "what permission rules cost a call",
    "gating": "bytes of a turn by how its call is decided, and the gate before a run",
    "audit": "what the audit chain costs a decision",
    "outbox": "what is owed: webhooks against plain requests, appends that owe, an idle courier",
    "delegation": "parents and children against conversations of one model call, and beside a webhook that hangs",
    "joining": "a steered message, from the end of a tool to the request that has it",
    "due": "many delayed messages and deadlines due at once, against starts and resolves",
    "presence": "attached clients at rest: Redis commands a second, memory of the server",
    "falling_back": "a turn whose first model is down, against its fallback alone",
    "claiming": "from a client's claim to the next model request, against a decision",
    "rehearsal": "three turns of an agent's unit test, without a stack",
}
PEERS = stack.ROOT / "peers" / "out"
"""Where `python -m peers` keeps its results; what is there is drawn, too."""


def main() -> None:
    """Measure, print, write."""
    parser = run.parser("python -m benchmarks", "Measure Holdfast against floors.", PARTS)
    parser.add_argument("--write-docs", action="store_true", help="write tables and charts of the results into docs/")
    parser.add_argument("--draw", action="store_true", help="measure nothing: write docs/ from the results of earlier runs")
    options = parser.parse_args()
    names = run.chosen(parser, options, PARTS)
    file = run.file_of(options, stack.OUT)
    theirs = run.read(PEERS / file.name)
    if options.draw and not (run.read(file) or theirs):
        parser.error(f"there are no results to draw in {file}")
    results = run.measured("benchmarks", PARTS, [] if options.draw else names, options, out=stack.OUT, about={})
    if options.write_docs or options.draw:
        docs.write(results | theirs)


if __name__ == "__main__":
    main()
