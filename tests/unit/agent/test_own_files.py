"""Texts in which a program runs a file that another one wrote for it, or words in another order than a rule has them."""

import pytest
from verdicts import asks

from holdfast.agent.rule import RuleEffect
from holdfast.agent.rules import Rules

OWN_FILES = (
    *("git config user.rm v; bash .git/config", "git init q; git -C q config color.rm v; . q/.git/config", "sh .gitconfig"),
    *("pip config set global.rm v; . .config/pip/pip.conf", "npm pkg set x.rm=v; npm t", "cd .git; . config"),
    *("git clone -c alias.x=push . r", "git clone -q --config help.autocorrect=1 . r", "git clone -qcx=y . r"),
    *("git clone --template=t . r", "git clone -u x . r", "git fetch --upload-pack=x", "git archive --exec=x --remote=y HEAD"),
    *("git log --output=.git/config --format='P'", "git log --output .git/config -1 --format='P'; git status"),
    *("git commit -mPATH=d; . .git/COMMIT_EDITMSG", "git --git-dir=g commit -mPATH=d; . g/COMMIT_EDITMSG"),
    *("cp x .config/git/config; git y", "cp -r hooks .git; git commit -mx", "cd .git/hooks; cp x pre-commit; git commit -mx"),
    *("cp x build.ninja; ninja", "sed -i s/echo/rm/ x.ninja; ninja -fx.ninja", "sed -i s/echo/rm/ m.py; pydoc3 m"),
    *(
        "sed -i s/echo/rm/ hk/pre-commit; git commit -mx",
        "git mv package.json p; sed -i s/echo/rm/ p; git mv p package.json; npm t",
    ),
    *("tmux new -d; tmux send r m Space v Enter", "tmux -fx new -d", "view -es +put=1 +q", "vim.basic -es -S x"),
    *("wait -p PATH", "wait -np PATH; ls", "printf '123%ln' PATH", "printf '123%hhn' PATH", "printf '1%tn' PATH"),
    *(
        "time PATH=d ls",
        "time -p PATH=d ls",
        "time BASH_ENV=x bash y",
        "time A=1 unset PATH",
        "time NODE_OPTIONS=--require=x node y",
    ),
    *("cd bin; echo 'P' | sort -ols", "echo 'P' | sort -uols", "sed -in p package.jso; npm test"),
)
"""Plain texts that write a file which a later program runs by itself, or set a name that no assignment shows."""

RECIPES = (
    *(
        "git init lexer.l && make lexer",
        "git clone . a.l && make a",
        "git worktree add a.l && make a",
        "python -m venv a.l && make a",
    ),
    *("cmake -B a.l && make a", "cmake -Ba.l && gmake a", "npm install --prefix x.l ; make x", "git init Makefile.l && make"),
    *(
        "git init x.l/y && make x",
        "git init src/x.l && make -C src x",
        "npm ci; uv venv x.ym\nnpm test; make x",
        "mkdir x.lm; make x",
    ),
    *(
        "git clone https://a.b/x.l.git && make x",
        "git init x.y && npx make x",
        "git init x.l; nice timeout 60 make x | tail -5",
    ),
    *("git init x.l && env CI=1 make x", "bash -c 'git init x.l' && bash -c 'make x'", "git init x.l; docker exec c make x"),
    *("git init x.l; if true; then time make x; fi", "DESTDIR=x.l cmake --install b; make x", "env DESTDIR=x.l npm ci; make x"),
)
"""Plain texts that make a folder from which a built-in rule of `make` runs `rm`."""
OCTOPUS = (
    *(
        "git rebase -r main",
        "git rebase -f -r main",
        "git rebase -fr main",
        "git rebase --rebase-merges main",
        "git rebase -p main",
    ),
    *("git pull --rebase=merges", "git pull --rebase=m . n", "git pull -qrm", "git config pull.rebase merges && git pull . n"),
    *(
        "git config --global pull.rebase m",
        "git -c pull.rebase=merges pull . n",
        "git pull -a",
        "git fetch -qa . n",
        "git fetch -a",
    ),
    *("git fetch --append . n", "git pull --no-rebase -a . w", "git branch -u n && git rebase -r"),
)
"""Plain texts in which `git` may merge several branches at once, for which a script of its own runs `rm`."""


BEHIND_TOOLS = (
    *("cmake -E env sed 1erm f", "cmake -E env nice sed 1erm f", "uv -q run sed 1erm f", "npm explore p -- env -Srm f"),
    *("npx x perl -eexec+r.chr+109", "ctest --test-command env -Srm", "kubectl -n a exec p -- ionice x", "uv -q run ionice x"),
    *("git bisect run sed 1erm f", "git submodule foreach sed 1erm f", "git rebase -x env x", "git difftool -x env", "git x"),
    *("git grep -Osh . f", "git grep --op=dash . f", "gcc -wrapper env,-Srm -c f.c", "gcc @x.opt", "gcc -specs=x f.c"),
    *("CFLAGS=-wrapper CPPFLAGS=env,-Srm make f.o", "make CC::=env CFLAGS::=-Srm f", "make SHELL:=/usr/bin/env all"),
    *("npm -s -d -q pkg set scripts.t=sed && npm run t", "git apply x.patch && git commit -am x"),
    *("kubectl config set-credentials u --exec-command=env && kubectl get pods", "tar xf q.tar --to-command=sqlite3"),
    *("/usr/bin//sed 1erm f", "/bin/./sed -i s/a/rm/ f", "/usr/bin/X11/sed 1erm f", "cd /usr/bin; ./sed 1erm f"),
    *(
        "/lib64/ld-linux-x86-64.so.2 /usr/bin/env -Srm",
        "python3 /usr/lib/python3.11/pdb.py x.py",
        "diff3 --diff-program=x a b c",
    ),
    *("echo P | tee x.log && scp -F x.log h:a .", "echo P | tee x.log && cmake -P x.log", "echo P | tee a.out && ./a.out"),
    *("npm test | tee x.log && cmake -P x.log", "npm test | sed s/a/b/ | tee x.log && make", "npm test | tee log && gcc @log"),
    *("python3 -m json.tool a y.sh && sh y.sh", "cmake -E copy x y.sh && sh y.sh", "touch a.l && make a.c"),
    *(
        "npm --loglevel info run env -- sed 1erm f",
        "npm --loglevel x pk set a=b",
        "npm explor p",
        "ctest -R get --test-command env x",
    ),
    *(
        "git bisect view bisect run perl -e exec+v114.109 --",
        "zip -r -T -TTsh x.zip d",
        "mkdir 'a;b' && make",
        "cd d && pip --log ../x.sh cache dir",
    ),
    *("sed -i s/a/b/ f && git status", "git commit -m 'a b' && git apply .git/COMMIT_EDITMSG", "psql -o x -c y && psql -f x"),
    *(
        "tar cIf perl a.tar x",
        "install -s --strip-program perl x",
        "git config --file x.sh user.a b",
        "coverage run -m timeit x",
    ),
    *("python3 -m unittest timeit.main", "pip3 -q -q config set a.b x && pip3 list", "python3 -m pip config set a.b x && make"),
    *("pip config edit --ed bash", "npm -s -s config set --userconfig=x.pl a=b && perl x.pl"),
    "python -m fire os execlp sed sed 1erm f",
    *(
        "bash fakeroot perl x",
        ". fakeroot",
        "npx --cache true find . -fprintf x.pl a && perl x.pl",
        "npx install /usr/bin/perl p; ./p x",
    ),
    *("npm exec --init-module sleep -- shuf --ou=x.pl -e a", "ctest --launch -- ls", "npm run ci --node-options=--import=x"),
    *(
        "cmake -B b -D CMAKE_C_COMPILER:FILEPATH=rm/",
        "cmake -DCMAKE_C_CPPCHECK=x .",
        "apt-get remove zip -y -o Dir::Bin::dpkg=perl",
        "zip -@TTrm a.zip x",
        "zip --tes -9@TTsh a.zip x",
    ),
    *("python3 -m pip.__main__ config set a.b x; make", "python3 -m pip.__main__ config edit --editor=x"),
    "npm exec --yes true -- find . -maxdepth 0 -fprintf x.pl a && perl x.pl",
    *("pnpm sed 1erm f", "yarn sed 1erm f", "just env -x y", "yarn perl -ex"),
    *("npx sed -n 1erm f", "npx ionice x", "venv/bin/coverage run -m timeit x", "venv/bin/pip --log x list"),
    *("rake -e @x=114.chr+109.chr -e exec@x", "rails runner exec@x", "brew ruby -e exec@x", "yarn node -e x"),
    *("mvn exec:exec -Dexec.executable=x", "rsync -essh a b", "meson devenv ionice x"),
    *("gcc -Wl,-plugin=./x.so f.c", "printenv A | tee x.log; sh x.sh", "kubectl config set a b && kubectl get pods"),
    *("tee c && dd if=c of=.gitconfig && git status", "tee c && sort c --output=.git/config && git status"),
    *(
        'awk \'{print > (".gi" "tconf")}\' && git status',
        "cp -b -S onfig HEAD c && git status",
        "git init && git am x && git log -1",
    ),
)
"""Plain texts in which a word behind a known tool, or a log, makes it run something else."""


@pytest.mark.parametrize("command", BEHIND_TOOLS)
def test_a_word_that_a_tool_takes_for_a_command_is_asked_about(command):
    assert asks("Bash(rm *)", "Bash", command.replace("echo P", "echo 'bin/r? v'"))


@pytest.mark.parametrize(
    "command",
    [
        "git rebase -x git-push x",
        "scp -S /usr/lib/git-core/git-push a b:c",
        "npm --script-shell=/usr/lib/git-core/git-push test",
    ],
)
def test_a_subcommand_that_is_a_program_of_its_own_is_named_by_the_rule(command):
    assert asks("Bash(git push *)", "Bash", command)


@pytest.mark.parametrize(
    "command",
    [
        *("npm run watch", "npm test | tee test.log && git status", "docker run --rm -it x bash", "uv run pytest -q"),
        *("pnpm exec jest", "gh pr view 3 --json title", "make -C x all", "cd /opt/app && ls", "/opt/venv/bin/python x.py"),
        *(
            "python -m unittest discover -s tests",
            "python -m pip install -r x.txt && pytest",
            "tar xzf a.tgz",
            "coverage run -m pytest -q",
        ),
        *("kubectl config use-context x && kubectl get pods", "gcc -O2 -Wall -c a.c -o a.o", "tar -czf a.tgz src"),
    ],
)
def test_a_tool_with_ordinary_words_is_clear(command):
    assert not asks("Bash(rm *)", "Bash", command)


@pytest.mark.parametrize("command", [*RECIPES, *OCTOPUS])
def test_a_text_for_which_make_or_git_may_run_rm_by_itself_is_asked_about(command):
    assert asks("Bash(rm *)", "Bash", command)


@pytest.mark.parametrize(
    "command",
    [
        *(
            "cat lexer.l && make lexer",
            "git init x.l && grep -r make .",
            "git add a.c && make",
            "git clone https://a.b/c.git && make",
        ),
        *("git rebase -Xtheirs main", "git rebase --autostash main", "git pull -qr origin main", "git pull --rebase=true"),
        *(
            "git pull --all",
            "git fetch -ptq origin",
            "git config pull.rebase true",
            "git -c pull.rebase=true pull",
            "git commit -am x",
        ),
    ],
)
def test_a_text_for_which_make_and_git_run_no_rm_by_themselves_is_clear(command):
    assert not asks("Bash(rm *)", "Bash", command)


@pytest.mark.parametrize("command", OWN_FILES)
def test_a_text_that_writes_what_a_program_runs_by_itself_is_asked_about(command):
    assert asks("Bash(rm *)", "Bash", command.replace("P'", "bin/r? v'"))


@pytest.mark.parametrize(
    "command",
    [
        *(
            "env install -s v push --strip-program=bin/git",
            "nice make .SHELLFLAGS:=push SHELL:=bin/git",
            "time prove push -e git",
        ),
        *("stdbuf -oL install -s v push --strip-program git", "env git clone ssh://push/x r", "sudo -E prove push -e bin/git"),
        *(
            "nice npm pkg set scripts.t=bin/git; npm run t push",
            "sed -i s:status:push: x; git st",
            "nice sed -i s/x/git/ y; npm t",
        ),
    ],
)
def test_the_words_of_a_denied_command_in_any_order_behind_a_wrapper_or_in_a_written_file_are_asked_about(command):
    assert asks("Bash(git push *)", "Bash", command)


@pytest.mark.parametrize(
    "command",
    [
        *("npm run g -- push", "npm run g push", "npm run g -- -C . push", "npm run g -- --no-pager push", "yarn -s g push"),
        *("./v.sh push", "cd d && ./v.sh -P push", "bash -x d/v.sh push origin", "python -u g.py push", "python -m d.g push"),
        *(
            "node g.js push",
            "coverage run g.py push",
            "timeout 9 nice ./v.sh push",
            "npm t && ./v.sh push --force",
            "uv run g.py push",
        ),
        *(
            "make g ARGS=push",
            "make g A=push",
            "make g X_NAME=push",
            "A=push make g",
            "env MSG=push make g",
            "export A=push; make g",
        ),
        *("A=push ./v.sh", "export A=push && ./v.sh", "env A=push d/v.sh", "A=push npm run w", "CI=1 A=push npm run w"),
        *("A=push timeout 9 bash d/v.sh", "mkdir -p build/push; ./d.sh", "mkdir -p push && ./d.sh ."),
        *("coverage run scripts/n.py publish", "A=push make vcs", "X_NAME=push make vcs", "export A=push; make vcs"),
        *(
            "git checkout -q -b publish && bash scripts/rel.sh",
            "git switch -q -c publish; ./rel.sh",
            "git init -q publish && sh l.sh",
        ),
        *("git branch publish && git checkout -q publish && sh rel.sh", "git checkout -q -b publish master && npm run rel"),
        *("git branch -m publish && bash rel.sh", "cd tools/publish && npm --prefix ../.. run here", "make -C tools/publish"),
        *("git clone -q . publish && bash l.sh", "git worktree add -q publish && ./l.sh", "cmake -S . -B publish && sh l.sh"),
        *("git remote add publish x && sh r.sh", "git config user.name publish && sh u.sh", "./v.sh verbs/push"),
        *("MSG=publish make n", "env MSG=publish make n", "A=push timeout 9 bash scripts/w.sh", "env A=push scripts/w.sh"),
    ],
)
def test_a_script_of_the_project_that_is_given_the_words_of_a_denied_command_is_asked_about(command):
    rules = Rules(deny=["Bash(git push *)", "Bash(npm publish *)"], default="allow")
    assert rules.verdict("Bash", {"command": command}, primary="command").effect is RuleEffect.ASK


@pytest.mark.parametrize(
    "command",
    [
        *("npm run push", "npm --prefix web run push", "make push", "npm install push", "python -m pytest tests/push.py"),
        *("./v.sh src/push.c", "mkdir push && ls push", "mkdir push && git status", "npm run build -- --mode=pushed"),
    ],
)
def test_a_script_that_is_only_named_like_a_word_of_a_denied_command_is_clear(command):
    rules = Rules(deny=["Bash(git push *)"], default="allow")
    assert rules.verdict("Bash", {"command": command}, primary="command").effect is RuleEffect.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        *("time -p make", "time A=1 npm test", "wait", "source .env && npm start", "bash .github/x.sh", "cd ../.. && make"),
        *("sed -i 's/echo/rm/' a", "git config user.email a@x.com && git commit -m 'a b'"),
        *("git clone -b x https://x.com/y && cd y && npm ci", "git diff --exit-code", "git archive --output=a.tar HEAD"),
        *("sort -k2 a -o b", "time git status", "cmake -B build && ninja -C build", "npm view x", "printf '%5.1f name' 1"),
    ],
)
def test_a_text_whose_files_no_denied_command_gets_into_is_clear(command):
    rules = Rules(deny=["Bash(rm *)", "Bash(git push *)"], default="allow")
    assert rules.verdict("Bash", {"command": command}, primary="command").effect is RuleEffect.ALLOW
