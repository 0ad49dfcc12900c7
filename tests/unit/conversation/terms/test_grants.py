"""Grants: which scopes may be given, and which targets of calls they cover."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversation import Principal
from holdfast.conversation.terms.grants import Grant, Level, Scope, Target, covering, tool_target
from holdfast.errors import ConfigurationError, InvalidDecision


def grant(kind, pattern, level="execute", *, ends_s=None, number=1, everything=False):
    scope = Scope(kind, pattern, level=level, ends_s=ends_s, everything=everything)
    return Grant.of(scope, grant_id=f"g{number}", at=1000, seq=number, by=Principal("ana"))


def covered(given, *targets, at=1000):
    return covering([given], targets, at=at) is not None


def test_each_level_includes_those_before_it():
    assert [[one.includes(other) for other in Level] for one in Level] == [
        [True, False, False, False],
        [True, True, False, False],
        [True, True, True, False],
        [True, True, True, True],
    ]


EVERYTHING = [
    *(
        "*",
        "**",
        "***",
        "/",
        "/*",
        "/**",
        "/**/*",
        "*/**",
        "**/*",
        "**/**",
        "*/*",
        "./**",
        "*.*",
        "*.**",
        "*-*",
        "*_*",
        "* *",
        "?*",
    ),
    *("*?", "[!]*", ".*", "*.", "//", "*:*", "*@*", r"\**", "-", "* -*", "/./**", "**/.", "~", "~/**", "\u2044*"),
]


@pytest.mark.parametrize("pattern", EVERYTHING)
@pytest.mark.parametrize("kind", ["tool", "path", "domain", "command", "account"])
def test_a_scope_that_covers_everything_is_refused_unless_it_says_so(kind, pattern):
    with pytest.raises(InvalidDecision) as raised:
        Scope(kind, pattern, level="read")

    assert raised.value.field == "scope.pattern"
    assert "everything=True" in raised.value.fix


def test_everything_can_be_granted_on_purpose():
    for kind, values in {
        "tool": ["x", "read_file"],
        "path": ["a", "/etc/passwd"],
        "domain": ["x.com", "localhost"],
        "command": ["ls", "npm run 'x y'"],
        "account": ["a b", "shop-1"],
    }.items():
        for pattern in ("*", "**"):
            given = grant(kind, pattern, everything=True)
            assert all(covered(given, Target(kind, value)) for value in values)
            assert not covered(given, Target("other", values[0]))
            assert not covered(given, Target(kind, values[0], "admin"))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"kind": "Path"}, "scope.kind"),
        ({"kind": ""}, "scope.kind"),
        ({"kind": "k" * 33}, "scope.kind"),
        ({"kind": 3}, "scope.kind"),
        ({"pattern": ""}, "scope.pattern"),
        ({"pattern": None}, "scope.pattern"),
        ({"pattern": "x" * 257}, "scope.pattern"),
        ({"pattern": "\u00fc" * 129}, "scope.pattern"),
        ({"pattern": "a\x00b"}, "scope.pattern"),
        ({"pattern": "a\u202eb"}, "scope.pattern"),
        ({"pattern": "src/[a-z]*"}, "scope.pattern"),
        ({"pattern": "src/?"}, "scope.pattern"),
        ({"pattern": "src/{a,b}"}, "scope.pattern"),
        ({"pattern": "src\\"}, "scope.pattern"),
        ({"pattern": "src/../**"}, "scope.pattern"),
        ({"pattern": "src//**"}, "scope.pattern"),
        ({"pattern": "src/"}, "scope.pattern"),
        ({"pattern": "./src/**"}, "scope.pattern"),
        ({"pattern": "~/src/**"}, "scope.pattern"),
        ({"pattern": "C:/x"}, "scope.pattern"),
        ({"kind": "domain", "pattern": "*.X.com"}, "scope.pattern"),
        ({"kind": "domain", "pattern": "x.com."}, "scope.pattern"),
        ({"kind": "domain", "pattern": "0177.0.0.1"}, "scope.pattern"),
        ({"kind": "domain", "pattern": "*.0.0.1"}, "scope.pattern"),
        ({"kind": "domain", "pattern": "*x.com"}, "scope.pattern"),
        ({"kind": "domain", "pattern": "a.*.com"}, "scope.pattern"),
        ({"kind": "domain", "pattern": "b\u00fccher.de"}, "scope.pattern"),
        ({"kind": "domain", "pattern": "https://x.com"}, "scope.pattern"),
        ({"kind": "command", "pattern": "npm *; rm *"}, "scope.pattern"),
        ({"kind": "command", "pattern": " npm *"}, "scope.pattern"),
        ({"kind": "tool", "pattern": "read file"}, "scope.pattern"),
        ({"kind": "tool", "pattern": "/x/"}, "scope.pattern"),
        ({"kind": "account", "pattern": "a%20b"}, "scope.pattern"),
        ({"level": "all"}, "scope.level"),
        ({"level": None}, "scope.level"),
        ({"ends_s": 0}, "scope.ends_s"),
        ({"ends_s": -1}, "scope.ends_s"),
        ({"ends_s": float("inf")}, "scope.ends_s"),
        ({"ends_s": float("nan")}, "scope.ends_s"),
        ({"ends_s": 1e12}, "scope.ends_s"),
        ({"ends_s": "60"}, "scope.ends_s"),
        ({"ends_s": True}, "scope.ends_s"),
        ({"everything": 1}, "scope.everything"),
    ],
    ids=str,
)
def test_a_scope_that_cannot_be_is_refused_with_its_field(given, field):
    with pytest.raises(InvalidDecision) as raised:
        Scope(**{"kind": "path", "pattern": "src/**", "level": "write"} | given)

    assert raised.value.field == field
    assert raised.value.fix


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (("Path", "x"), "target.kind"),
        (("path", ""), "target.value"),
        (("path", "x" * 257), "target.value"),
        (("path", b"x"), "target.value"),
        (("path", "a\nb"), "target.value"),
        (("path", "x", "root"), "target.level"),
    ],
)
def test_a_target_that_cannot_be_is_refused_with_its_field(given, field):
    with pytest.raises(ConfigurationError) as raised:
        Target(*given)

    assert raised.value.field == field


@pytest.mark.parametrize(
    ("kind", "pattern", "value", "yes"),
    [
        ("tool", "read_*", "read_file", True),
        ("tool", "read_file", "Read_file", False),
        ("path", "src/**", "src/a/b", True),
        ("path", "src/*", "src/a/b", False),
        ("path", "src/**", "src/../b", False),
        ("path", "src/**", "src//b", False),
        ("path", "src/**", "/src/b", False),
        ("path", "src/**", "src\\..\\b", False),
        ("path", "src/**", "src/%2e%2e/b", False),
        ("path", "src/**", "./src/b", False),
        ("path", "src/**", "src", False),
        ("path", "src/a", "src/a", True),
        ("path", "/srv/**", "/srv/a", True),
        ("path", "/srv/**", "srv/a", False),
        ("path", "/srv/**", "//srv/a", False),
        ("path", "**/*.md", "a.md", True),
        ("path", "**/*.md", "/a.md", False),
        ("domain", "*.x.com", "a.x.com", True),
        ("domain", "*.x.com", "x.com", False),
        ("domain", "*.x.com", "evilx.com", False),
        ("domain", "*.x.com", "A.x.com", False),
        ("domain", "*.x.com", "a.x.com.", False),
        ("domain", "*.x.com", "a.x.com:80", False),
        ("domain", "*.x.com", "https://a.x.com", False),
        ("domain", "*.x.com", "evil.com@a.x.com", False),
        ("domain", "*.x.com", "\u0430.x.com", False),
        ("domain", "x.com", "x.com", True),
        ("domain", "127.0.0.1", "127.0.0.1", True),
        ("domain", "127.0.0.1", "0177.0.0.1", False),
        ("path", "/proc/**", "/proc/self/status", True),
        ("path", "/proc/**", "/proc/self/cwd/a", False),
        ("command", "npm *", "npm i", True),
        ("command", "npm *", "npm i; rm x", False),
        ("command", "npm *", "npm i $(rm x)", False),
        ("command", "npm *", "npm ../x", False),
        ("command", "git status", "git status", True),
        ("account", "shop-*", "shop-1", True),
        ("account", "shop-*", "shop-1/../admin", False),
        ("account", "shop-*", "shop-\u200b1", False),
        ("account", "a*z", "A-z", False),
    ],
)
def test_a_grant_covers_targets_in_their_canonical_form(kind, pattern, value, yes):
    try:
        target = Target(kind, value)
    except ConfigurationError:
        assert not yes
        return
    assert covered(grant(kind, pattern), target) is yes


def test_a_grant_covers_its_own_kind_up_to_its_level():
    given = grant("path", "src/**", "write")

    assert [covered(given, Target("path", "src/a", level)) for level in Level] == [True, True, False, False]
    assert not covered(given, Target("account", "src/a", "read"))
    assert Target("path", "src/a").level is Level.EXECUTE


def test_a_grant_covers_nothing_once_it_has_ended():
    given = grant("path", "src/**", ends_s=1.5)

    assert given.ends_at == 2500
    assert covered(given, Target("path", "src/a"), at=2499)
    assert not covered(given, Target("path", "src/a"), at=2500)
    assert grant("path", "src/**").ends_at is None


def test_a_call_is_covered_only_if_each_of_its_targets_is():
    paths, hosts = grant("path", "src/**", number=1), grant("domain", "*.x.com", number=2)
    path, host = Target("path", "src/a"), Target("domain", "a.x.com")

    assert covering([paths, hosts], [path, host, path], at=1000) == (paths, hosts)
    assert covering([paths], [path, host], at=1000) is None
    assert covering([paths, hosts], [], at=1000) is None
    assert covering([paths, hosts], [path] * 8, at=1000) == (paths,)
    assert covering([paths, hosts], [path] * 9, at=1000) is None
    assert covering([], [path], at=1000) is None


def test_of_several_grants_the_first_that_stands_is_named():
    ended, first, second = (
        grant("path", "src/**", ends_s=1, number=1),
        grant("path", "src/*", number=2),
        grant("path", "src/**", number=3),
    )

    assert covering([ended, first, second], [Target("path", "src/a")], at=9000) == (first,)


def test_a_call_without_declared_targets_has_its_tool():
    assert tool_target("Bash") == Target("tool", "Bash", "execute")
    assert covered(grant("tool", "Bash"), tool_target("Bash"))
    assert not covered(grant("tool", "Bash", "write"), tool_target("Bash"))
    assert not covered(grant("command", "ls", "execute"), tool_target("ls"))


def test_a_grant_is_a_record_that_comes_back_from_json():
    given = grant("path", "src/**", ends_s=60)

    assert Grant.model_validate_json(given.model_dump_json()) == given


def test_a_stored_grant_whose_pattern_cannot_be_read_covers_nothing():
    broken = grant("path", "src/**").model_copy(update={"pattern": "src/[a-z]*"})

    assert not covered(broken, Target("path", "src/a"))


@given(
    st.sampled_from(["tool", "path", "domain", "command", "account"]), st.text("*?/.\\-_ [](){}~+:@!x0", min_size=1, max_size=6)
)
def test_what_may_be_granted_without_saying_everything_leaves_something_out(kind, pattern):
    try:
        scope = Scope(kind, pattern, level="admin")
    except InvalidDecision:
        return
    given = Grant.of(scope, grant_id="g", at=0, seq=1)
    others = ["q", "/q", "q.w", "q/w", "/q/w", "q w"]
    assert not all(covering([given], [Target(kind, value)], at=0) for value in others if Target(kind, value).is_canonical)
