"""What rules that allow cover: nothing that is more than it seems."""

import pytest
from verdicts import allows


@pytest.mark.parametrize(
    ("pattern", "tool", "covered"),
    [
        ("read_file", "read_file", True),
        ("read_file", "read_files", False),
        ("read_file", "Read_file", False),
        ("file_*", "file_read", True),
        ("file_*", "profile_read", False),
        ("mcp__github__*", "mcp__github__merge", True),
        ("mcp__github__*", "mcp__gitlab__merge", False),
        ("*", "anything", True),
        ("/mcp__.*__(get|list)_.*/", "mcp__a__get_b", True),
        ("/mcp__.*__(get|list)_.*/", "x_mcp__a__get_b", False),
        ("/get|list/", "getaway", False),
    ],
)
def test_a_pattern_names_tools(pattern, tool, covered):
    assert allows(pattern, tool) is covered


@pytest.mark.parametrize(
    "command",
    [
        "npm i",
        "npm run build",
        "npm test -- --watch=false",
        "npm i left-pad@1.0.0",
        "npm run 'a b' \"c\"",
    ],
)
def test_bash_npm_allows_npm(command):
    assert allows("Bash(npm *)", "Bash", command)


@pytest.mark.parametrize(
    "command",
    [
        *("npm i; rm -rf ~", "npm i && rm -rf ~", "npm i || rm -rf ~", "npm i & rm -rf ~", "npm i | sh", "npm i |& sh"),
        *("npm i $(rm -rf ~)", "npm i `rm -rf ~`", "npm i\nrm -rf ~", "npm i\rrm -rf ~", "npm i\u2028rm", "npm i\x85rm"),
        *("npm i > ~/.bashrc", "npm i >> x", "npm i 2>x", "npm i < x", "npm i <(rm -rf ~)", "npm i ${HOME}", "npm i $HOME"),
        *("npm i \\\nrm", "npm i \\; rm", "npm\u00a0i", "npm \u202ei", "npm \u200bi", " npm i", "npm i ", "npmx i", "npm"),
        *("\uff4e\uff50\uff4d i", "n\u0440m i", "npm i \uff1b rm", "npm i \u037e rm", "npm \x00i", "npm i\trm"),
        *("npm i {a,b}", "npm i [a]", "npm i !!", "npm i ^x", "npm i #x", "npm i %3B rm", "npm i 'x", 'npm i "x', "npm i (x)"),
        *(
            "npm run x *.js",
            "npm run x ~/y",
            "npm i a%b",
            "npm i a^b",
            'npm i "a\\b"',
            "npm i 'x;rm'",
            "npm i ../x",
            "npm i x/../../y",
            "npm " + "x" * 70_000,
        ),
    ],
)
def test_bash_npm_does_not_allow_what_is_more_than_npm(command):
    assert not allows("Bash(npm *)", "Bash", command)


@pytest.mark.parametrize(
    ("pattern", "command", "covered"),
    [
        ("cat src/**", "cat src/a/b", True),
        ("cat src/**", "cat src/a /etc/passwd", False),
        ("cat src/**", "cat src/a b", False),
        ("cat src/*", "cat src/a/b", False),
        ("cat *x*/y", "cat /etc/passwd x/y", False),
        ("npm * --dry-run", "npm publish --dry-run", True),
        ("npm * --dry-run", "npm publish 'x --dry-run'", False),
        ('git commit -m "*"', 'git commit -m "fix it"', True),
        ('git commit -m "*"', 'git commit -m "fix" --amend "x"', False),
        ("cd web && npm *", "cd web && npm i", True),
        ("cd web && npm *", "cd web && npm i && rm", False),
        ("*", "ls -la", True),
        ("*", "ls /etc", False),
        ("./scripts/*", "./scripts/build", True),
        ("./scripts/*", "./scripts/../x", False),
    ],
)
def test_a_wildcard_of_a_command_stays_where_it_stands(pattern, command, covered):
    assert allows(f"Bash({pattern})", "Bash", command) is covered


@pytest.mark.parametrize(
    "path", ["src/a.py", "src/deep/er/a.py", "src/my file.txt", "src/\u00fcber/\u65e5\u672c.txt", "src/@x/a"]
)
def test_a_folder_allows_what_is_in_it(path):
    assert allows('Edit(file_path ~ "src/**")', "Edit", file_path=path)


OUTSIDE = [
    *("src/../etc/passwd", "src/..", "src/./a", "src//a", "../src/a", "src\\..\\a", "src/%2e%2e/etc/passwd", "/src/a"),
    *("~/src/a", "SRC/a", "srcs/a", "src/a\x00.py", "C:src/a", "src/\u2024\u2024/a", "", "src", "src/", "/app/src/a"),
    *("src/..\\x", "src/ ../x", "src/.. /x", "src/.../x", "src/x./y", "src/a\n", "src/\u2215etc", "src/a /etc/passwd"),
    *("src/a:b", "src/$HOME", "src/`x`", "file:///src/a", "src/\u202ea", "src/e\u0301", "src/a;b", "src/*"),
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_folder_does_not_allow_what_leads_out_of_it(path):
    assert not allows('Edit(file_path ~ "src/**")', "Edit", file_path=path)


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/b/a.py", False),
        ("**/*.md", "a/b/c.md", True),
        ("**/*.md", "c.md", True),
        ("**/*.md", "/c.md", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("**", "a/b", True),
        ("**", "/etc/passwd", False),
        ("**", "../x", False),
        ("*.md", "a.md", True),
        ("*.md", "a/b.md", False),
        ("*.md", "/b.md", False),
        ("/srv/**", "/srv/a", True),
        ("/srv/**", "//srv/a", False),
        ("/srv/**", "srv/a", False),
        (r"a\*b", "a*b", True),
        (r"a\*b", "axb", False),
    ],
)
def test_a_star_stays_in_its_folder(pattern, path, covered):
    assert allows(f'Edit(file_path ~ "{pattern}")', "Edit", file_path=path) is covered


@pytest.mark.parametrize("url", ["https://a.x.com/path?q=1&r=2", "http://a.b.x.com", "a.x.com", "https://a.x.com/@me"])
def test_a_domain_allows_its_hosts(url):
    assert allows("Fetch(*.x.com)", "Fetch", url)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "https://evilx.com/",
            "https://x.com.evil.com/",
            "https://evil.com/?.x.com",
            "https://evil.com/#.x.com",
            "https://x.com",
        ),
        *("https://a.x.com@evil.com/", "https://a.x.com:80@evil.com", "https://evil.com\\.x.com", "https://evil.com/a.x.com"),
        *("https://a.x.com.", "https://a.x.com./", "https://a.x.com:8443/", "HTTPS://A.X.COM", "https://\u0430.x.com/"),
        *("ftp://a.x.com/", "https://a.x.com\n.evil.com", "https://a.x.com/ https://evil.com", "https:a.x.com", "//a.x.com"),
        *(
            "https:///a.x.com",
            "https://.x.com",
            "https://-.x.com",
            "https://a..x.com",
            "https://a.x.com/../b",
            "https://a.x.com/%2e%2e/",
        ),
        *("evil.com/.x.com", "evil.com?.x.com", "evil.com#.x.com", "evil.com@a.x.com", "a.x.com.", "A.x.com", "a.x.com:80"),
        *(
            "https://a.\uff58.com",
            "https://a\u3002x.com",
            "https://xn--.x.com",
            "https://a_b.x.com",
            "javascript:https://a.x.com",
        ),
    ],
)
def test_a_domain_allows_no_other_host(url):
    assert not allows("Fetch(*.x.com)", "Fetch", url)


SEVERAL = ["127.1", "0177.0.0.1", "017700000001", "2130706433", "0x7f.1", "127.0.0.1.", "1.2.3.4.5", "0x7F000001"]


@pytest.mark.parametrize("host", SEVERAL)
@pytest.mark.parametrize("pattern", ["Fetch(https://**)", "Fetch(https://*/**)", r'Fetch(text =~ "https://[^/]*/?")'])
def test_an_address_that_is_not_in_its_usual_form_is_allowed_by_no_wildcard(pattern, host):
    assert not allows(pattern, "Fetch", f"https://{host}/")
    assert allows(pattern, "Fetch", "https://127.0.0.1/")


@pytest.mark.parametrize(
    ("pattern", "host", "covered"),
    [
        *(("10.*", host, True) for host in ("10.0.0.1", "10.1.2.3")),
        *(("10.*", host, False) for host in ("10.evil.com", "10.0.0.1.evil.com", "10.x", "10.evil.com.", "10.x.xn--p1ai")),
        ("1.*", "1.2.3-rc1", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "https://127.0.0.1/a", True),
    ],
)
def test_a_glob_of_numbers_allows_no_host_with_a_name(pattern, host, covered):
    assert allows(f"Fetch({pattern})", "Fetch", host) is covered


@pytest.mark.parametrize("link", ["self/root", "1/cwd", "self/task/7/root", "self/fd/3", "thread-self/cwd"])
def test_a_folder_of_processes_allows_nothing_behind_their_links(link):
    assert allows('Read(path ~ "/proc/**")', "Read", path="/proc/self/status")
    for pattern in (
        'Read(path ~ "/proc/**")',
        'Read(path ~ "/**")',
        'Read(path =~ "/proc/.*")',
        "Bash(cat /proc/**)",
        "Bash(cat *)",
    ):
        for path in (f"/proc/{link}/etc/passwd", f"/proc/{link}"):
            assert not allows(pattern, pattern[:4], f"cat {path}", path=path), (pattern, path)


@pytest.mark.parametrize(
    ("pattern", "url", "covered"),
    [
        ("https://api.x.com", "https://api.x.com/a?b", True),
        ("https://api.x.com", "http://api.x.com/a", False),
        ("https://api.x.com/v1/**", "https://api.x.com/v1/a/b?c=d", True),
        ("https://api.x.com/v1/**", "https://api.x.com/v1/../v2", False),
        ("https://api.x.com/v1/**", "https://api.x.com/v1/%2e%2e/v2", False),
        ("https://api.x.com/v1/**", "https://api.x.com/v1/..?a=1", False),
        ("https://api.x.com/v1/**", "https://api.x.com/v1/.?a=1", False),
        ("https://api.x.com/v1/**", "https://api.x.com/v1/..#a", False),
        ("https://api.x.com/v1/**", "https://api.x.com/v1/a.b/..c?d=.", True),
        ("https://api.x.com/v1/*", "https://api.x.com/v1/a/b", False),
        ("https://api.x.com/v1/*", "https://api.x.com/v1/a?b", False),
        ("https://*.x.com/v1/**", "https://evil.com/.x.com/v1/a", False),
        ("https://x.com*", "https://x.com.evil.com/", False),
        ("https://x.com*", "https://x.com/a", True),
        ("https://x.com:8443/**", "https://x.com:8443/a", True),
    ],
)
def test_a_url_allows_what_is_below_it(pattern, url, covered):
    assert allows(f"Fetch({pattern})", "Fetch", url) is covered


@pytest.mark.parametrize(
    ("condition", "arguments", "covered"),
    [
        ('argv ~ "npm *"', {"argv": ["npm", "i"]}, False),
        ('paths ~ "tmp/**"', {"paths": ["tmp/a", "tmp/b"]}, True),
        ('paths ~ "tmp/**"', {"paths": ["tmp/a", "/etc/b"]}, False),
        ('paths ~ "tmp/**"', {"paths": []}, False),
        ('paths ~ "tmp/**"', {"paths": [["tmp/a"]]}, False),
        ('paths ~ "tmp/**"', {"paths": ["tmp/a", None]}, False),
        ('files.path ~ "tmp/**"', {"files": [{"path": "tmp/a"}, {"path": "tmp/b"}]}, True),
        ('files.path ~ "tmp/**"', {"files": [{"path": "tmp/a"}, {}]}, False),
        ('a.b = "x"', {"a": {"b": "x"}}, True),
        ('a.b = "x"', {"a": {"b": "evil"}, "a.b": "x"}, False),
        ('a = "x"', {"a": "x", "A": "evil"}, False),
        ('a = "x"', {"a": {"a": "x"}}, False),
        ('a = "10"', {"a": 10}, True),
        ('a = "10"', {"a": 10.0}, False),
        ('a = "x"', {}, False),
    ],
)
def test_an_allow_looks_into_lists_and_objects_as_far_as_nothing_is_left_open(condition, arguments, covered):
    assert allows(f"Run({condition})", "Run", **arguments) is covered


@pytest.mark.parametrize(
    ("regex", "text", "covered"),
    [
        ("npm (i|test)", "npm i", True),
        ("npm (i|test)", "npm i; rm", False),
        ("npm (i|test)", "npm i\n", False),
        ("npm i|npm test", "npm i", True),
        ("npm i|npm test", "x npm test", False),
        ("npm .*", "npm run build", True),
        ("npm .*", "npm i; rm", False),
        ("npm .*", "npm i $(rm)", False),
        ("npm .*", "npm i ../x", False),
        (r"npm\\s[^;]*", "npm i\nrm", False),
        ("npm [^x]*; ls", "npm i; ls", True),
        (r"[\\s\\S]*", "a\nb", False),
        (r"a\\nb", "a\nb", True),
        ("src/.*", "src/../etc", False),
        ("src/.*", "src/%2e%2e/etc", False),
        (r"https://.*\\.x\\.com", "https://evil.com#.x.com", False),
        (r"https://.*\\.x\\.com", "https://evil.com?.x.com", False),
        (r".+@x\\.com", "a@x.com", True),
        ("(?<name>a)", "a", True),
        ("(?<name>.*)", "a > b", False),
        (r"a\\\\|.*", "a | b", False),
        (r"a\\|.*", "a| b", True),
        (r"C:\\\\[a-z]+", "C:\\dir", True),
    ],
)
def test_a_regular_expression_allows_what_it_matches_whole_and_says(regex, text, covered):
    pattern = f'Bash(text =~ "{regex}")'.replace("\\\\", "\\")

    assert allows(pattern, "Bash", text) is covered
