"""What rules say of commands: of plain ones what they say, and of unclear ones at least a question."""

import subprocess
import sys
from random import Random
from timeit import timeit

import pytest
from verdicts import allows, asks, denies

from holdfast.agent.hiding import hides
from holdfast.agent.rule import Rule, RuleEffect
from holdfast.agent.rules import Rules
from holdfast.conversation import Executor


def verdict(rules, command, **facts):
    return rules.verdict("Bash", {"command": command}, primary="command", **facts)


@pytest.mark.parametrize(
    ("pattern", "command", "covered"),
    [
        *(
            ("git push *", f"git {words}push", True)
            for words in ("", "-C . ", "--no-pager ", "-c a=b -C x ", "'-C' 'a b' ", "x ")
        ),
        *(("git push *", command, True) for command in ("/usr/bin/git push x", "git.exe push", "GIT PUSH", "env A=1 git push")),
        *(
            ("git push *", command, False)
            for command in ("git pull", "git pushes", "git", "gitpush", "push git", "npm push; git x")
        ),
        ("git push", "git push --force", True),
        ("git push* --force", "git push-all x --force", True),
        ("git * --force", "git push --force", True),
        ("git * --force", "git push", False),
        ("docker compose up *", "docker compose -f x.yml up -d", True),
        ("docker compose up *", "docker up compose", False),
        ("rm -rf *", "rm -rf x", True),
        ("rm -rf *", "rm -r -f x", False),
        ("/bin/rm *", "rm x", True),
        ("cat src/**", "cat -n x/../src/a", True),
        ('git commit -m "*"', "git commit -m 'a b'", True),
        ("npm run *:prod", "npm run -s build:prod", True),
        ("n* run x", "npm run x", True),
    ],
)
def test_a_deny_is_about_a_program_and_words_in_their_order(pattern, command, covered):
    assert denies(f"Bash({pattern})", "Bash", command) is covered
    assert denies(f'Bash(text ~ "{pattern.replace(chr(34), chr(92) + chr(34))}")', "Bash", command) is covered


def test_a_name_alone_is_about_the_program_where_the_argument_holds_commands():
    assert verdict(Rules(deny=["Bash(rm)"]), "sudo rm -rf x").effect is RuleEffect.DENY
    assert verdict(Rules(deny=["Bash(rm)"]), "ls").effect is RuleEffect.ALLOW
    assert not denies("Pay(shop)", "Pay", "shop 1")


@pytest.mark.parametrize(
    "command",
    [
        *(
            "ls *.py",
            "echo $HOME",
            "ls > x",
            "ls &",
            "(ls)",
            "ls ~",
            "echo a!b",
            "ls # x",
            'echo "a\\b"',
            "echo 'a",
            "\u200bls",
            "a\rb",
        ),
        *(
            "ls " + "x " * 40 + ">" + "y" * 5000,
            "(" * 3000 + "ls" + ")" * 3000,
            "eval " * 20 + "'eval \"x y\"'" + "$",
            "x=(" * 1300,
        ),
    ],
    ids=lambda command: repr(command[:20]),
)
def test_an_unclear_command_is_allowed_by_nothing_and_asked_about_by_everything(command):
    assert verdict(Rules(deny=["Bash(rm *)"], default="allow"), command).effect is RuleEffect.ASK
    assert verdict(Rules(ask=["Bash(rm *)"], default="allow"), command).effect is RuleEffect.ASK
    assert verdict(Rules(deny=['Bash(command =~ "^rm")'], default="allow"), command).effect is RuleEffect.ASK
    assert (
        verdict(Rules(allow=["Bash(ls *)", "Bash(echo *)", 'Bash(command =~ "(.|\\n)*")'], default="deny"), command).effect
        is RuleEffect.DENY
    )
    assert verdict(Rules(deny=["Other(rm *)"], default="allow"), command).effect is RuleEffect.ALLOW
    assert verdict(Rules(default="allow"), command).effect is RuleEffect.ALLOW


def test_an_unclear_command_that_a_rule_writes_out_is_allowed_by_it():
    assert allows("Bash(npm test > log)", "Bash", "npm test > log")
    assert allows('Bash(command = "ls $HOME")', "Bash", command="ls $HOME")
    assert not allows("Bash(npm test > *)", "Bash", "npm test > log")


def test_what_may_be_denied_is_never_less_than_the_default():
    assert verdict(Rules(deny=["Bash(rm *)"], default="deny"), "$X").effect is RuleEffect.DENY
    assert verdict(Rules(ask=["Bash(rm *)"], default="deny"), "$X").effect is RuleEffect.DENY


def test_nobody_can_be_asked_about_a_provider_s_call_that_may_be_denied():
    assert verdict(Rules(deny=["Bash(rm *)"]), "$X", executor=Executor.PROVIDER).effect is RuleEffect.DENY
    assert verdict(Rules(deny=["Bash(rm *)"]), "what now?", executor=Executor.HUMAN).effect is RuleEffect.ALLOW


def test_who_approves_an_unclear_command_is_one_of_those_whom_each_rule_names_that_it_may_be_about():
    push = Rule("Bash(git push *)", approvers=["role:maintainer"])
    publish = Rule("Bash(npm publish *)", approvers=["role:owner"])
    found = verdict(Rules(deny=[Rule("Bash(rm *)", reason="No.")], ask=[push, publish]), "$X")

    assert (found.effect, found.rule) == (RuleEffect.ASK, "Bash(rm *)")
    assert found.reason == "it is unclear what the command runs, and this rule may cover it: No."
    assert [str(one) for one in (found.approvers, *found.also)] == ["role:maintainer", "role:owner"]


@pytest.mark.parametrize(
    "command",
    [
        *(
            "linux64 rm x",
            "echo rm",
            "hash -p /bin/rm x; x",
            "PS4='$(x)'; set -x; ls",
            "x 'a; rm b'",
            "x --run=rm",
            "x '$(y)'",
            "x -vrm",
        ),
        *(
            "echo x | bash",
            "xargs ls",
            "python",
            "perl -e 'x'",
            "tee x; sh x",
            "tee b/x; x",
            "awk 'BEGIN{system(x)}'",
            "sed e",
            "PATH=x ls",
        ),
        *(
            "nice split x",
            "x python",
            "declare 'a[x]'",
            "awk 'x | y'",
            "printf -v x y",
            "source /dev/stdin",
            "echo x | bash -o posix",
            "bash +x",
            "x | linux64",
            "sed 's,x,y,e'",
            "nice " * 70 + "ls",
        ),
        *("read PS4", "let x", "declare -i x=y", "sudo -s", "env BASH_ENV=x bash x", "X='a*b' ls", "printf -vx y", "bash -o x"),
    ],
)
def test_a_plain_command_that_may_run_what_it_does_not_say_is_asked_about(command):
    assert asks("Bash(rm *)", "Bash", command)


HIDING = (
    *(
        "function f if eval 'r$9m v'; then true; fi; f",
        "coproc f while eval 'r$9m v'; do break; done; wait",
        "jobs -x eval 'r$9m v'",
    ),
    *("P | read RANDOM", "BASH_CMDS=/bin/sh; P | 0", "P | tee f; set -a; getopts f BASH_ENV -f; bash -c true"),
    *("set -o history; HISTFILE=h; history -s 'r$9m v'; history -a; sh h", "P | bash -s v1.2", "P | sh -s -- x"),
    *(
        "P | bash --posix -s v",
        "P | sh /dev//stdin",
        "P | . /proc//self/fd/0",
        "cd /dev && P | sh stdin",
        "ln -s /dev d; P | sh d/stdin",
    ),
    *(
        "P | python3 - x",
        "P | python3 -W ignore",
        "P | perl5.36.0",
        "P | nodejs",
        "P | awk -f -",
        "P | sed -nf - f",
        "P | capsh --",
    ),
    *(
        "P | tee e/x; chmod +x e/x; nice e/x",
        "P | tee e/x; tar -Ie/x -cf y f",
        "P | tee x; time . ./x",
        "P | tee x; nice python3 x",
    ),
    *("P | tee x; perl -I lib x", "P | tee r; bash --rcfile r -ic true", "cd bin; P | tee z; chmod +x z; cd -; z"),
    *(
        "P | tee x; sed -i.b p x; sh x.b",
        "P | tee x; cp -b --suffix=y f x; sh xy",
        "P | tee __main__.py; python3 .",
        "P | tee x.py; python3 -m x",
    ),
    *("linux64 flock f -c 'r$9m v'", "ionice find -L bin -name 'r?' -exec '{}' v ';'", "x86_64 split --filter='r$9m v' f"),
    *(
        "linux64 env " + "A=1 " * 80 + "flock f -c x",
        "tar -" + "v" * 70 + "Irm -cf x f",
        "P | tee Makefile; make",
        "P | tee package.json; npm test",
    ),
    *(
        "P | sed 's/^//eg'",
        "P | sed '1 e'",
        "P | sed -n 'p; e'",
        "P | sed -ee",
        "P | sed 's,[,],;s,e #,p,'",
        "P | sed -n wx; sh x",
    ),
    *(
        "if echo 'r$9m v'; then sleep 1; sh x; fi | tee x",
        "bash -c 'sleep 1; sh x' | tee x",
        "P |\nbash",
        "P | tee x; GIT_SSH=./x git fetch",
    ),
    *('awk \'BEGIN{print "r" "m v" > "k" "j"}\'; sh kj', "strace -o '|r$9m v' true", "env -iS'bash x'", "zsh -c '=r9 v'"),
)
"""Plain texts in which bash runs what no word of them says; P writes a command that is encoded."""


@pytest.mark.parametrize("command", HIDING)
def test_a_plain_text_that_hides_a_command_is_asked_about(command):
    assert asks("Bash(rm *)", "Bash", command.replace("P |", "echo cm0gdgo= | base64 -d |"))


UNKNOWN_PLACES = (
    *(
        "bash -c -- 'P'",
        "sh -c -e 'P'",
        "bash -c 'bash -c -- \"P\"'",
        "/proc/self/exe -c 'P'",
        "exec /proc/self/exe -c 'P'",
        "zsh -c 'P'",
    ),
    *(
        "X='\nP\n' sh //proc/self/environ",
        "cd //proc; sh self/environ",
        "mkdir '\nP\n'; cd '\nP\n'; cd /; cd proc; sh self/environ",
    ),
    *("npm exec -c 'P'", "npx -c 'P'", "npm -c 'P' exec", "npm -c rm exec", "npm --editor rm config edit", "npx rm@10 x"),
    *(
        "P | uniq -- - -x; git mv ./-x y; bash y",
        "NODE_OPTIONS=--import=x node j.js",
        "npm_config_call=x npm exec",
        "TAR_OPTIONS=x tar t",
    ),
    *(
        "GNUMAKEFLAGS=--eval=x make",
        "ionice env MAKEFLAGS=x make",
        "ionice env 'A=P' x",
        "CC=x make",
        "make CC=x y",
        "make CC='P;:' y",
    ),
    *(
        "VIMINIT='P' view f",
        "A_URL='P' x",
        "export A_KEY='P'",
        "HARNESS_PERL_SWITCHES=x prove y",
        "PERL5DB=x perl y",
        "ENV=x sh -i",
    ),
    *(
        "python3 -m timeit -s 'P'",
        "python -m pdb x.py",
        "python x.py 'P'",
        "perl5.36-x86_64-linux-gnu -e 'P'",
        "pdb3 -c 'P' x.py",
    ),
    *(
        "gcc -wrapper perl5.36-x86_64-linux-gnu,-e,x y.c",
        "perl -esystem+lc+q,RX,",
        "ionice perl -esystem+lc+q,RX,",
        "rename lc+q,X, f",
    ),
    *(
        "git ls-remote --upload-pack='P' .",
        "git clone -u 'P' . y",
        "git grep -O'P' x",
        "git grep -nO'P' x",
        "git difftool -x 'P'",
    ),
    *(
        "git archive --remote=. --exec='P' HEAD",
        "git -c alias.x='!P' x",
        "git -c core.pager=sh -p log --format='P'",
        "git config alias.x y",
    ),
    *(
        "git commit -m 'P'; bash .git/COMMIT_EDITMSG",
        "git commit -m 'P'; cp .git/COMMIT_EDITMSG test_x.py; pytest",
        "git rebase -m -x 'P'",
    ),
    *(
        "git commit -m 'P'; cd .git; cmake -P COMMIT_EDITMSG",
        "git log --format='P' --output=y",
        "git log --format='P' --outp y",
    ),
    *("sqlite3 x '.sh P'", "zip y f -T -TT 'P'", "scp -o 'ProxyCommand=P' f x:y", "view -c ':!P'", "perf stat --pre 'P' true"),
    *(
        "dpkg --pre-invoke='P' --configure -a",
        "apt-get -o 'X=P' update",
        "pip config --editor 'P' edit",
        "javac -J'P' x",
        "jshell 'P'",
    ),
    *(
        "docker run x sh -c -m 'P'",
        "psql -c '\\! P'",
        "curl -w '%output{y}P' https://x",
        "watch ls 'P'",
        "env 'A=x B=y' watch ls 'P'",
    ),
    *(
        "sort --compress-program=x y",
        "rg --pre x y f",
        "find f -fprintf y 'P'",
        "ionice sed 1ezz f",
        "gsed 1ezz f",
        "printf '%n' 'a[P]'",
    ),
    *(
        "npm pkg set scripts.test='P'",
        "sed -i 's|a|b \"c\"|' x.test.js; npm test",
        "sed -i s,a,b, package.json; npm test",
        "cp x Makefile && npm test",
    ),
    *(
        "mv x .profile; bash -lc true",
        "git mv x bin/psql; psql -c 'P'",
        "cd bin; pip config --editor 'r[m]' edit",
        "gh repo clone x -- -u -b 'P'",
    ),
)
"""Plain texts in which P, or a bare word, stands where no table says that its program runs none of it."""


@pytest.mark.parametrize("command", UNKNOWN_PLACES)
def test_a_text_where_its_program_is_not_known_to_run_none_is_asked_about(command):
    assert asks("Bash(rm *)", "Bash", command.replace("P |", "echo x |").replace("P", "bin/r? v"))


@pytest.mark.parametrize(
    "command",
    [
        *("git log --author='Ana B' --format='%h %s' --oneline", "git show 'HEAD^'", "git grep -n 'a.*b'", "git -C sub status"),
        *(
            "git stash push -m 'a b' && git push",
            "git commit -am 'a \"b\" (#1)' && git log -1",
            "git -c color.ui=never config user.name Ana",
        ),
        *(
            "curl -sX POST https://x.com -H 'A: b' -d '{}'",
            "curl 'https://x.com/a?b=1&c=2'",
            "pytest -m 'not slow' 'tests/x.py::t[a-1]'",
        ),
        *(
            "kubectl get pods -o jsonpath='{.items}'",
            "docker ps --format '{{.Names}}'",
            "eslint 'src/**/*.ts'",
            "pip install 'x>=2,<3'",
        ),
        *(
            "gh pr create --title 'a b' --body 'c.'",
            "psql -d x -c 'select count(*) from y'",
            "A_URL=x://y B_KEY=z npm test",
            "command -v x",
        ),
        *(
            "NODE_OPTIONS=--max-old-space-size=4096 npm test",
            "env A=1 timeout -k 5 60 nice -n 5 bash -lc 'npm test'",
            "mv 'a b' c",
        ),
        *(
            "find . -type f -not -path './x/*' -delete",
            "make -j4 VERBOSE=1 all",
            "ls /dev/null",
            "sort -t'|' -k2 f | uniq -c",
            "rg -n 'a b'",
        ),
    ],
)
def test_a_text_that_its_program_is_known_not_to_run_is_clear(command):
    assert verdict(Rules(deny=["Bash(rm *)"], default="allow"), command).effect is RuleEffect.ALLOW


PARTS = (
    *(
        "ls",
        "A=1",
        "|",
        "||",
        "&&",
        ";",
        "\n",
        "git",
        "npm",
        "-x",
        "-m",
        "tee",
        "sed",
        "awk",
        "find",
        "sort",
        "cat",
        "bash",
        "-c",
    ),
    *(
        "'ls'",
        "''",
        "python",
        "unittest",
        "pip",
        "x.log",
        "if",
        "then",
        "fi",
        "time",
        "env",
        "nice",
        "-n",
        "5",
        "docker",
        "exec",
    ),
    *("tar", "zip", "run", "npx", "--", "true", "config", "set", "cd", ".", "source", "./y", "-", "/x"),
)


def test_no_text_of_words_and_joints_fails_to_be_judged():
    random = Random(34)  # noqa: S311 - the same each time
    rules = Rules(deny=["Bash(rm *)", "Bash(git push *)"], default="allow")
    for _ in range(3000):
        text = " ".join(random.choice(PARTS) for _ in range(random.randint(1, 9)))
        assert verdict(rules, text).effect is not None


@pytest.mark.parametrize("command", ["ls | A=1", "ls | if", "npm test | time"])
def test_a_pipe_into_no_program_is_asked_about(command):
    assert asks("Bash(rm *)", "Bash", command)


def test_a_long_text_is_judged_in_a_time_that_grows_with_its_length():
    for text in (
        "printf '" + "%0" * 30_000 + "'",
        "x " + "/." * 30_000,
        "A" + "_A" * 30_000 + "=1 x",
        "sed '" + "p;" * 30_000 + "'",
        "cmake x " + "nice cmake x " * 18,
        "git rebase " + f"-{'a' * 1000} " * 60,
        "tee " + "a/" * 30_000,
    ):
        assert timeit(lambda text=text: hides(text), number=1) < 2


def test_a_program_that_a_rule_names_runs_none_of_its_words():
    named = Rules(deny=["Bash(rm *)"], allow=["Bash(git *)", "Bash(nice *)"], default="ask")

    assert verdict(named, "git rm x").effect is RuleEffect.ALLOW
    assert verdict(named, "hg rm x").effect is RuleEffect.ASK
    assert verdict(named, "nice rm x").effect is RuleEffect.DENY
    assert verdict(Rules(deny=["Bash(rm *)"], allow=['Bash(note ~ "hg")'], default="allow"), "hg rm x").effect is RuleEffect.ASK


@pytest.mark.parametrize(
    "command",
    [
        *(
            "npm ci && npm run build",
            "cat src/a.py | grep -n 'def x'",
            "python -m pytest -q",
            "bash build.sh",
            "sed -n '1,20p' a.py",
        ),
        *(
            "cd a; ./gradlew build",
            "awk '{print $1}' x",
            ". venv/bin/activate",
            "sed 's/a/b/g' x",
            "A=1 make test",
            "time npm test",
        ),
        *(
            "git commit -m 'fix: (x) {y} $5'",
            "find . -name '*.py'",
            "cp src/a.py lib/a.py",
            "bash -c 'npm test'",
            "printf '%s\\n' x",
            "",
        ),
        *(
            "git add -A && git commit -m 'fix find' && git status",
            "awk -F'|' '{print $2}' f | sort -u",
            "sed -E 's/^[ab]+//g; 1,2p' f",
        ),
        *(
            ". venv/bin/activate && pytest -q | tail -5",
            "python manage.py makemigrations && python manage.py migrate",
            "npm run watch",
        ),
        *(
            "npm run build && node dist/x.js",
            "bash scripts/x.sh | tee x.log",
            "sed -i 's/a/b/' f && grep -n b f",
            "npm ci && npm test | tee test.log",
            "timeout 9 python -m pytest",
        ),
        *(
            "docker compose exec db psql -c 'select 1'",
            "curl -s https://x.com | jq '.a | .b'",
            "PYTHONPATH=src python3.11 x.py",
            "node -v",
        ),
    ],
)
def test_a_plain_command_of_others_is_left_alone(command):
    assert verdict(Rules(deny=["Bash(rm *)", "Bash(git push *)"], default="allow"), command).effect is RuleEffect.ALLOW


@pytest.mark.parametrize("command", ["ionice view -es +so./x +q", "setpriv x y", "ninjax x", "nvim x", "unheard-of"])
def test_a_program_that_no_table_and_no_rule_names_is_asked_about(command):
    rules = Rules(deny=["Bash(rm *)"], allow=["Bash(terraform2 *)"], default="allow")
    assert verdict(rules, command).effect is RuleEffect.ASK
    assert verdict(rules, "terraform2 apply x").effect is RuleEffect.ALLOW
    assert verdict(rules, "terraform2 apply 'a b'").effect is RuleEffect.ASK


@pytest.mark.parametrize(
    "writing", ["cp x y", "sed -i s/a/b/ x", "echo a | tee x.js", "curl -o x https://x.com", "tar xf x", "mv x y"]
)
@pytest.mark.parametrize(
    "running", ["npm test", "make", "./x", "bash x.sh", "python -m x", ". x.sh", "git commit -m x", "time ctest"]
)
def test_nothing_of_the_project_runs_after_what_may_have_written_it(writing, running):
    rules = Rules(deny=["Bash(rm *)"], default="allow")
    assert verdict(rules, f"{writing} && {running}").effect is RuleEffect.ASK
    assert verdict(rules, f"{writing} && grep a x").effect is RuleEffect.ALLOW
    assert verdict(rules, f"{running} && cat x").effect is RuleEffect.ALLOW


@pytest.mark.parametrize("command", ["ls -la", "ls *"])
def test_the_grammar_is_imported_for_unclear_commands_alone(command):
    code = (
        "import sys; from holdfast.agent.rules import Rules;"
        f"Rules(deny=['Bash(rm *)']).verdict('Bash', {{'command': {command!r}}}, primary='command');"
        "print('tree_sitter' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == str(command == "ls *")


@pytest.mark.parametrize(
    "command",
    [
        "git bisect run rm v",
        "git submodule foreach rm v",
        "git rebase -x 'rm v' main",
        "git -c alias.x='!rm v' x",
        "git grep -O'rm v' x",
    ],
)
@pytest.mark.parametrize("more", [{"default": "allow"}, {"allow": ["Bash(git *)"]}])
def test_a_rule_about_one_program_weakens_none_about_another(command, more):
    rules = Rules(deny=["Bash(rm *)", "Bash(git push *)"], **more)
    assert rules.verdict("Bash", {"command": command}, primary="command", required=False).effect is RuleEffect.ASK
    fine = rules.verdict("Bash", {"command": "git rm x"}, primary="command", required=False)
    assert fine.effect is RuleEffect.ALLOW


UNLISTED = (
    *("git rebase '-xy~' main", "git grep '-Oy~' x"),
    *(
        "python manage.py shell -c sys.__getattr__=sys.rm.x=os.system",
        "./x.sh a.__b__=c",
        "python3 -m pyinstrument -mtimeit x.py",
    ),
    *(
        "python3 -m setuptools.launch env/lib/python3.11/timeit.py",
        "python3 -m IPython --m=timeit",
        "rspec /usr/bin/rake -e 'x y'",
    ),
    *(
        "rspec bin/rake",
        "mocha x/bin/npm-cli.js",
        "docker run ruby rake -e system:x",
        "docker compose run web rake -e system:x",
    ),
    *("make -f .git/logs/refs/heads/x a", "DJANGO_SETTINGS_MODULE=coverage.__main__ python manage.py run -m timeit"),
    *(
        "cd env/lib/python3.11 && python3 ./timeit.py x",
        "cd venv/lib/python3.11/site-packages && python3 coverage/__main__.py x",
    ),
    *(
        "python3 env/lib/python3.11/timeit.py x",
        "python3 venv/lib/python3.11/site-packages/coverage/__main__.py run -m timeit x",
    ),
    *("node node_modules/npm/bin/npm-cli.js x", "cd env/lib && python3 ./python3.11/timeit.py x"),
    *("git -c pull.twohead=x rebase -f", "DOCKER_HOST=ssh://-ox docker ps", "aws s3 --region a cp s3://b/x.sh x.sh; bash x.sh"),
    *("cd /. && bash bin/x y", "bash /./bin/x y", "python3 /./lib/python3.11/timeit.py x", "cd /./usr && bash bin/x"),
    *("coverage run --source ./x.py -m timeit y", "coverage run --omit a.py /usr/lib/timeit.py x", "npm run env -- rake -e x"),
    *(
        "npm run-script env rake -e x",
        "ruby bin/rake -e system:x",
        "python3 venv/bin/coverage run -m timeit x",
        "bash bin/xargs x",
    ),
    *("python3 -m pygments -flatex -o.npmrc README.md && npm run ci", "mypy x.__getattr__,a=y"),
    *(
        "psql -c 'create extension dblink'",
        "psql -c \"select dblink_exec('x', concat('co', 'py'))\"",
        "pip install --global=x .",
        "x -p y.__main__",
    ),
    *(
        "dotnet build /p:PreBuildEvent=x",
        "gunicorn -k os.system x:y",
        "aws s3 cp s3://b/x.sh x.sh && bash x.sh",
        "java -cp . jdk/jshell/x",
    ),
    *("docker cp c:/x.sh x.sh && bash x.sh", "gh release download v1 && bash x.sh", "rails g migration x && rails db:migrate"),
    *("cmake --build b --target=-fx", "FLASK_APP=timeit:main flask run", "pytest -p unittest.__main__"),
    *(
        "git clone -uall x",
        "python -m test x",
        "pylint --output-format=x.y z",
        "uv run x",
        "uv run -m timeit x",
        "uv run /usr/lib/x.py",
    ),
    *(
        "psql -c 'alter system set archive_command to x'",
        "psql -c \"select U&'@0072m' uescape '@'\"",
        "psql -c 'select pg_reload_conf()'",
    ),
    *(
        "coverage run -ma timeit x",
        "cmake --build b --target=CMAKE_COMMAND=-x",
        "python -m dotenv -f .npmrc set -- node-options --import=x",
    ),
    *("python3-coverage run -m pip.__main__ config edit", "x/npm pkg set scripts.x=editor; npm run x"),
    *("python -m dotenv run x", "python -m fire os x", "python -m x run.py /usr/bin/y"),
    *("npm explore which -- '$(x)m y'", "cd ../../.. && bash bin/x a", "bash ../../bin/x a", "cd .. && cd bin && bash ./x a"),
    *("cd .. && ./bin/x a", "bundle e x", "bundler exec x", "nodemon x --exec y", "perldoc x", "luarocks x", "node inspect x"),
    *("bun run x", "bun x y", "deno task x", "deno eval x", "node x", "coverage run /usr/lib/python3/timeit.py x"),
    *("coverage run a.py -k 'x y'", "coverage run -m timeit x", "git rebase -s a/../x --root", "git merge -X eval=x y"),
    *('alembic revision -m \'x"""+y\'', 'flask db migrate -m \'x"""\'', "git lfs x"),
    *(
        "wget --use-askpass=x https://y",
        "tar --inf=x -tf y",
        "tar -cf a@x:y --rs=z y",
        "tar cIhf x a.tar y",
        "java -XX:OnError=x -jar y",
    ),
    *(
        "gcc --prefix=x y.c",
        "gcc @x",
        "git init --t=x",
        "git fetch -m --upload-pack=x y",
        "git archive --exe=x --remote=. HEAD",
    ),
    *(
        "gpg --agent-program=x -d y",
        "npm run ci --script-shell=x",
        "npm ci --node-options=--import=x",
        "npx install -s --strip-program x y",
    ),
    *("apt-get -o DPkg::Pre-Invoke::=x update", "apt install -oDir::Bin::dpkg=x y", "make SHELL:=x y", "make .SHELLFLAGS=x y"),
    *(
        "psql -c 'create function x() returns y'",
        "file -C -m x",
        "ss -D x",
        "journalctl --cursor-file=x",
        "coverage run -m timeit x",
    ),
    *(
        "pylint --init-hook=x y",
        "mypy --python-executable x y",
        "virtualenv -p x y",
        "helm install x y --post-renderer z",
        "rsync -e x a b",
    ),
    *(
        "go test -exec x ./...",
        "cargo build --config build.rustc-wrapper=x",
        "meson test --wrapper x",
        "bazel run --run_under=x //y",
    ),
    *(
        "cmake -B b -DPYTHON_EXECUTABLE=x",
        "ctest -S x",
        "rake -e x",
        "yarn x",
        "pnpm x",
        "just x",
        "docker x",
        "gh x",
        "python -m pip x",
    ),
    *(
        "sqlite3 a.db .shell",
        "protoc --plugin=x y.proto",
        "pandoc --filter x y",
        "mvn exec:exec -Dexec.executable=x",
    ),
    *(
        "pre-commit try-repo x",
        "redis-cli config set dir x",
        "kubectl --kubeconfig x get pods",
        "npm test system+q.x.",
        "curl -K x",
    ),
)
"""Commands of known programs, with words that no row of theirs has."""


@pytest.mark.parametrize("command", UNLISTED)
def test_a_known_program_with_a_word_that_is_not_known_is_asked_about(command):
    assert asks("Bash(rm *)", "Bash", command)


LISTED = (
    *("docker run --rm app npm test", "docker compose run --rm web pytest -q", "rspec spec/a_spec.rb", "jest src/a.test.ts"),
    *(
        "coverage run --source=src -m pytest -q",
        "coverage run --source src -m pytest",
        "python -m app && npm test",
        "npm run env",
        "ruby bin/rake test",
        "bash bin/x y",
    ),
    *(
        "uv run main.py",
        "uv run -m pytest -q",
        "cmake -Bbuild",
        "git status -uno",
        "sqlite3 ./x.db .tables",
    ),
    *("coverage report -m", "bunzip2 -k x.bz2"),
    *(
        "git commit -qm 'a b' --no-verify",
        "git log --oneline -n 5 --grep 'a b'",
        "git switch -c x",
        "git clean -fdx",
        "git push -u origin x",
    ),
    *(
        "npm --prefix web run build",
        "npm i -D vitest --save-exact",
        "npm test -- --runInBand src/x",
        "pnpm --filter web build",
        "npx eslint src --fix",
    ),
    *(
        "docker compose -f x.yaml up -d --build",
        "docker run --rm -it -p 80:80 x",
        "kubectl -n x get pods -o wide",
        "helm upgrade --install x ./y -f z",
    ),
    *(
        "pytest -xvs tests/x.py::test_y -k 'a and b' --tb=short",
        "mypy --strict src",
        "cargo test -p x -- --nocapture",
        "go test -race ./... -run X",
    ),
    *(
        "tar -czf a.tgz --exclude='*.o' src",
        "rsync -avz --delete a/ b/",
        "cmake -B build -G Ninja -DCMAKE_BUILD_TYPE=Release",
        "lsof -ti:3000",
    ),
    *(
        "gcc -Wall -Wextra -O2 -std=c11 -Iinclude -c a.c -o a.o",
        "java -Xmx2g -jar x.jar",
        "terraform plan -out=x",
        "gh pr create --title 'a b' --body 'c d'",
    ),
    *(
        "curl -fsSL -X POST -H 'A: b' -d '{\"a\": 1}' https://x/y",
        "pip install -U 'x[y]>=2'",
        "dig +short x.com",
        "systemctl status nginx --no-pager",
    ),
)


@pytest.mark.parametrize("command", LISTED)
def test_a_known_program_with_words_that_are_known_is_clear(command):
    assert not asks("Bash(rm *)", "Bash", command)


UNNAMED = """awk 'BEGIN{print "x" > ("a" "b")}'; """
PASSED = (
    *(
        UNNAMED + words
        for words in ("./nice true", "bash ./nice true", "python3 d/timeout 5 ls", "d/uv run ls", "node ./time ls")
    ),
    *(UNNAMED + words for words in ("d/node --version", "d/sh -c true", "python3 -v", "pdb3 --help", "bash --version")),
    *(UNNAMED + words for words in ("python3 -m poetry run ls", "kubectl exec x -- ls", "docker compose exec x ls")),
    *("gzip -S .nicez a; gunzip -S z a.nicez; sh ./nice true", "tee a; cp -b -S ce x ni; sh ./nice true"),
    *(". v/bin/activate; " + UNNAMED + "ls", ". v/bin/activate; tee v/bin/da; cp -b -S te x v/bin/da; time date"),
    *("python3 -m unittest.__main__ x", "python3 -m http.cookies x", "python3 -m pip.x list"),
    *("npm test -- -p a=b,c", "npm run x a,b", "npm t -- --eval=a.b", "npm run x -- -pe a", "yarn test -- a+b", "just x a=b"),
    *("npm run x -- s/a.b/c/e", "npm run x 1ec", "cargo run -- a,b", "make x args=y", "make x A=1,2", "make x A=s/a/b/e"),
    *(
        "bash x.sh sed -e s,a,b,e f",
        "python3 x.py env sed 1ec f",
        ". x.sh node -e a",
        "python3 x.py a,b",
        "./x a=b",
        "sh x.sh a:",
    ),
    *("sh /var/lib/x y", "/var/lib/x y", "cd /var/lib; sh ./x y", "npm run x -- /var/lib/x", "make x A=/var/lib/x"),
    *("npm -C /usr/lib/x run y", "npm run y --prefix=/usr/lib/x", "make -C /usr/share/x y", "cd /usr/src/.. && sh share/x"),
    *("setsid make", "nice setsid make", "sh x.sh setsid make", "timeout --foreground 1 make", "timeout -s HUP 1 make"),
    *("timeout 1 timeout 2 make", "timeout 1 bash -c 'nice timeo\"\"ut 2 make'", "timeout 1 sudo make"),
    *("make x.c", "make -C src x.o", "mkdir x.l && make x", "mkdir -p x.l/y && make x"),
    *("git merge a b", "git merge --no-ff a -m x b", "git pull --no-rebase . a b", "git fetch . a b && git merge FETCH_HEAD"),
    *("python3 -m x a.b,c", "bin/make x a=b", "sh x.sh cp a Makefile && make"),
    *("bash x.sh a | tee scripts/log && bash y.sh", "npm test | tee bin/out && npm start", "make x | tee a.out && make"),
)
"""Texts of two readers who had the source: a name that is a file of the project, words that a script of it passes on, a folder
of the system, a command that goes on while the next one writes, and a rule that is built into a program."""


@pytest.mark.parametrize("command", PASSED)
def test_what_runs_by_another_name_or_gets_its_words_from_a_script_is_asked_about(command):
    assert asks("Bash(rm *)", "Bash", command)


@pytest.mark.parametrize(
    "command",
    [
        *("npm run x -- --port=3000 -p 80 @a/b src/a.ts:12", "npm run test:unit", "npm config set registry https://x.com"),
        *(
            "yarn workspace @a/b test",
            "npm install a@1.2",
            "make -C lib PORT=3000 all",
            "make docs/html",
            "cargo test -- --nocapture",
        ),
        *(
            "python manage.py runserver 0.0.0.0:8000",
            "python x.py --lr 1e-3",
            "bash x.sh a -v b",
            "./gradlew :app:test",
            "mkdir x.app && make",
            "bin/bundle exec rspec",
        ),
        *("python3 -m http.server 8000", "python3 -m json.tool a.json", "python3 --version", "node -v && npm -v"),
        *("timeout -k 5 60 make test && timeout 9 npm test", "timeout -s KILL 60 make", "sudo timeout 5 ls", "nohup npm start"),
        *(
            "git merge --no-ff -m 'a b' x",
            "git pull --rebase origin main",
            "cd /var/www/x && npm ci",
            "mkdir -p .github/x && make",
        ),
        *(". v/bin/activate && pip install -e . && pytest | tee x.log", "docker compose exec web ls", "make | tee output.txt"),
    ],
)
def test_an_ordinary_word_behind_a_script_and_an_ordinary_folder_are_clear(command):
    assert not asks("Bash(rm *)", "Bash", command)
