"""What permission rules cost a call: the processor time of one verdict with 100 rules of all kinds."""

import gc
import json
import statistics
import time

from benchmarks.result import Part, Row, Table
from holdfast.agent import Rule, Rules
from holdfast.agent.coverage import readings_of

MUST_BE_MS = 0.5

COMMANDS = (
    *("rm", "dd", "mkfs", "shutdown", "reboot", "kubectl", "helm", "terraform", "psql", "mysql", "redis-cli", "iptables"),
    *("useradd", "passwd", "chown", "crontab"),
)
PATHS = ("secrets", ".git", ".ssh", ".aws", "deploy/production", "infrastructure/state", "migrations", "vendor")
HOSTS = ("evil.example", "internal.example", "metadata.example", "pastebin.example", "transfer.example")


def rules() -> Rules:
    """A hundred rules: of commands, paths, hosts and values, by name, glob and regular expression."""
    deny = [f"Bash({command} *)" for command in COMMANDS]
    deny += [f'{tool}(file_path ~ "{path}/**")' for path in PATHS for tool in ("Read", "Edit")]
    deny += [f"Fetch(*.{host})" for host in HOSTS] + ["Fetch(169.254.169.254)", "Fetch(https://api.example/admin/**)"]
    deny += [
        r'Bash(command =~ "(?i)\b(curl|wget)\b.*\|\s*(ba)?sh")',
        r'Bash(command =~ "--force\b")',
        "*_secret",
        "/mcp__.*__delete_.*/",
    ]
    ask = [
        "Bash(git push *)",
        "Bash(npm publish *)",
        "Bash(docker run *)",
        "Bash(*production*)",
        "mcp__github__*",
        "/.*_payment/",
    ]
    ask += [
        Rule(f'pay_{number}(currency = "EUR", amount =~ "[0-9]{{4,}}")', approvers=["role:finance"]) for number in range(10)
    ]
    allow = [
        "Bash(npm *)",
        "Bash(git status)",
        "Bash(git diff *)",
        "Bash(ls *)",
        "Bash(cat src/**)",
        'Edit(file_path ~ "src/**")',
    ]
    allow += ['Read(file_path ~ "**")', "Fetch(*.docs.example)", "Fetch(https://api.example/v1/**)"]
    allow += [f"look_up_{number}" for number in range(100 - len(deny) - len(ask) - len(allow))]
    made = Rules(deny=deny, ask=ask, allow=allow, default="ask")
    assert len(made.deny) + len(made.ask) + len(made.allow) == 100
    return made


CALLS = {
    "a short command": ("Bash", {"command": "npm run build -- --watch=false"}),
    "a command of seven parts, 500 characters": (
        "Bash",
        {
            "command": "cd web && npm ci --ignore-scripts && npm run build 2>&1 | tee build.log; "
            'for f in dist/*.js; do gzip -k "$f" && echo "done: $f"; done; '
            "git commit -m 'build: " + "more words about it " * 14 + "' && git status",
            "description": "Build the site and say what changed",
            "timeout": 120_000,
        },
    ),
    "an edit of 4 KB": (
        "Edit",
        {"file_path": "src/app/page.py", "old_string": "x = 1\n" * 300, "new_string": "x = 2\n" * 400, "replace_all": False},
    ),
    "a page": (
        "Fetch",
        {"url": "https://www.docs.example/guide/rules?section=2#order", "prompt": "What does it say on order?"},
    ),
    "a tool that few rules are about": ("look_up_3", {"order": "A-1042", "with": ["items", "payments"]}),
}
PRIMARY = {"Bash": "command", "Read": "file_path", "Edit": "file_path", "Fetch": "url"}


def measured(given: Rules, tool: str, arguments: str, rounds: int) -> list[float]:
    """The processor time of each verdict, in milliseconds, as for a call that is new: nothing of it is known."""
    samples = []
    for _ in range(rounds):
        readings_of.cache_clear()
        began = time.process_time_ns()
        given.verdict(tool, arguments, primary=PRIMARY.get(tool))
        samples.append((time.process_time_ns() - began) / 1e6)
    return samples


def measure(*, quick: bool) -> Part:
    rounds = 200 if quick else 2000
    given = rules()
    began = time.process_time()
    again = rules()
    made_ms = (time.process_time() - began) * 1000
    assert again == given
    lines, raw = [], {}
    for name, (tool, arguments) in CALLS.items():
        text = json.dumps(arguments)
        verdict = given.verdict(tool, text, primary=PRIMARY.get(tool))
        gc.collect()
        samples = raw[name] = measured(given, tool, text, rounds)
        p50, p99 = statistics.median(samples), statistics.quantiles(samples, n=100)[98]
        lines.append([name, str(verdict.effect), verdict.rule or "-", f"{p50:.3f} ms", f"{p99:.3f} ms"])
    p50 = max(statistics.median(samples) for samples in raw.values())
    what = "processor time of a verdict with 100 rules, for the dearest kind of call (p50)"
    return Part(
        rows=[Row(what, p50, "ms", MUST_BE_MS, p50 / MUST_BE_MS, 1.0, rounds)],
        tables=[
            Table("A verdict with 100 rules", ["call", "effect", "rule", "p50", "p99"], lines),
            Table("Making 100 rules", ["once"], [[f"{made_ms:.0f} ms"]]),
        ],
        charts=[],
        raw=raw,
    )
