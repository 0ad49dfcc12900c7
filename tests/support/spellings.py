"""Spellings of a command, drawn from a grammar of what bash runs: quoting, nesting, joints, wrappers."""

import base64
import shlex
from random import Random

from holdfast.conversation.text.matching import is_plain_script

COMMANDS = {
    "rm": (["rm"], ["rm", "-rf", "v"], ["rm", "v"]),
    "git push": (["git", "push"], ["git", "push", "origin", "main"], ["git", "push", "--force"]),
    "npm publish": (["npm", "publish"], ["npm", "publish", "--tag", "x"]),
}
"""Of each command, its words as somebody would write them."""
OPTIONS = {
    "git": (["-C", "."], ["--no-pager"], ["-c", "a=b"], ["--git-dir=x", "-P"]),
    "npm": (["--silent"], ["--prefix", "x"], ["-w", "a"]),
}
"""What may stand before the word that says what a program does."""

WRAPPERS = (
    *("env {}", "env A=1 {}", "env -u A {}", "nice {}", "nice -n 5 {}", "nohup {}", "timeout 5 {}", "timeout -s KILL 5s {}"),
    *("stdbuf -o0 {}", "setsid -w {}", "linux64 {}", "linux32 {}", "setarch -R {}", "setarch x86_64 {}", "x86_64 {}"),
    *("flock . {}", "ionice {}", "ionice -c 2 {}", "chrt -o 0 {}", "taskset 1 {}", "taskset -c 0 {}", "prlimit --nofile=64 {}"),
    *("choom -n 0 -- {}", "setpriv --no-new-privs {}", "unshare -U {}", "echo v | xargs {}", "xargs -n1 {} </dev/null"),
    *("xargs -a /dev/null {}", "find . -maxdepth 0 -exec {} ';'", "find . -maxdepth 0 -exec {} \\;", "find -prune -exec {} +"),
    *(
        "command {}",
        "exec {}",
        "exec -a x {}",
        "builtin command {}",
        "eval {}",
        "time {}",
        "time -p {}",
        "! {}",
        "coproc {}; wait",
    ),
    "jobs -x {}",
    *("builtin eval {}", "builtin exec {}", "nice nohup timeout 5 {}", "env nice -n 1 linux64 {}", "./bin/env {}", "env -- {}"),
)
"""What runs the words behind it."""
RUNNING = (
    *("eval {}", "bash -c {}", "sh -c {}", "bash -ec {}", "bash -c 'eval \"$1\"' x {}", "env bash -c {}", "trap {} EXIT"),
    *(
        "flock FILE -c {}",
        "script -qc {} /dev/null",
        "bash <<< {}",
        "echo {} | bash",
        "printf %s {} | sh",
        ". /dev/stdin <<< {}",
    ),
    *(
        "source <(echo {})",
        "bash <(echo {})",
        'eval "$(echo {})"',
        "X={}; eval $X",
        'X={}; eval "$X"',
        "env X={} sh -c 'eval $X'",
    ),
    *(
        "echo {} > FILE; bash FILE",
        "echo {} | tee FILE; sh ./FILE",
        "echo {} | tee FILE >t; chmod +x FILE; ./FILE",
        "shopt -s expand_aliases\nalias x={}\nx",
        "set -- {}; eval $1",
    ),
    *("mapfile -t -C {} -c 1 < <(echo a)", "echo {} | xargs -I@ sh -c @", "echo {} | split --filter 'sh -s'"),
    *(
        'X={}; bash -c "$X"',
        "export X={}\nbash -c '$X'",
        "export X={}\nflock FILE -c '$X'",
        "cat <<< {} | bash",
        "echo {} | sed e",
        "echo {} | sed 's/^//e'",
        "echo {} | dd of=FILE; . ./FILE",
    ),
    *(
        "function f if eval {}; then true; fi; f",
        "coproc f while eval {}; do break; done; wait",
        "jobs -x eval {}",
        "linux64 flock FILE -c {}",
        "taskset 1 script -qc {} /dev/null",
    ),
    *("read X <<< {}; eval $X", "nice bash -c {}", "echo {} | timeout 5 bash -s", "IFS=%; X={}; eval $X"),
)
"""What runs a text."""
NESTING = (
    *(
        "( {} )",
        "({})",
        "{ {}; }",
        "echo $({})",
        'echo "$({})"',
        "echo `{}`",
        'echo "`{}`"',
        ": $(: $({}))",
        'echo "a $(echo "$({})")"',
    ),
    *(
        "cat <({})",
        "echo x > >({})",
        "if {}; then :; fi",
        "if :; then {}; fi",
        "if false; then :; else {}; fi",
        "while {}; do break; done",
    ),
    *(
        "until {}; do break; done",
        "for i in 1; do {}; done",
        "for i in 1; { {}; }",
        "case x in x) {};; esac",
        "case x in (y|x) {} ;; esac",
    ),
    *(
        "f() { {}; }; f",
        "function f { {}; }; f",
        "f() ( {} )\nf",
        "X=$({})",
        "X=`{}` true",
        "echo ${x:-$({})}",
        'echo "${x:=$({})}"',
    ),
    *(
        ": $(( $({}) + 0 ))",
        "(( 1 + $({}) ))",
        "[[ $({}) ]]",
        "[ -n $({}) ]",
        "a=([$({})]=1)",
        "a[$({} >&2; echo 0)]=1",
        "test -v 'a[$({})]'",
    ),
    *(
        "[[ -v 'a[$({})]' ]]",
        "printf -v 'a[$({} >&2; echo 0)]' x",
        "let 'a[$({} >&2; echo 0)]=1'",
        "declare 'a[$({} >&2; echo 0)]=1'",
    ),
    *(
        "PS4='$({})'; set -x; :",
        "cat <<E\n$({})\nE",
        "cat <<E\nE\n{}",
        "bash <<E\n{}\nE",
        "sh <<'E'\n{}\nE",
        "cat <<-E\n\tE\n{}",
    ),
    *(
        "# a comment \\\n{}",
        "echo a # b\n{}",
        "echo 'a\n#'; {}",
        "echo a\\\\\n{}",
        ": 'a;b' && {}",
        ': "it\'s"; {}',
        ": \\'; {} #'",
    ),
    *(
        "coproc { {}; }; wait",
        "{} & wait",
        "! {}",
        "time {}",
        "[[ a ]] && {}",
        "((1)) && {}",
        "for ((;;)); do {}; break; done",
        "a=(b) ; {}",
    ),
    *(
        "select i in 1; do {}; done <<< 1",
        "true; {}",
        "true && {}",
        "false || {}",
        "true | {}",
        "true |& {}",
        "true\n{}",
        "true & {}",
    ),
    *(
        "if {}\nthen :\nfi",
        "if true; then {}; fi",
        "while {}; do break; done",
        "until {}\ndo break\ndone",
        "for i in 1 2; do {}; done",
    ),
    *("function f if {}; then true; fi\nf", "coproc f until {}; do break; done\nwait", "if true; then {}; fi | cat"),
    *("hash -p bin/env y; y {}", "cp bin/env y; ./y {}", "cp ./bin/env y\nnice ./y {}", "ln -s bin/env y; ./y {}"),
    *("coproc {}\nwait", "time {}", "time -p time {}", "set -e; {}", "exec {}", "X=1; {}", "A=1 B='c d' {}", "echo a b | {}"),
    *(
        "{}; true",
        "{} && true",
        "{} || true",
        "{} | cat",
        "{} |& cat",
        "{}\ntrue",
        ": ${x}{}",
        "echo 'a;b';{}",
        "cd . ; {}",
        ":;{}",
    ),
    *(
        "echo a >f;{}",
        "echo $'it\\'s'; {}",
        'echo "a\\"b"; {}',
        "echo 'a' 'b'\n\n{}",
        ": $'\\''; {}",
        ": {a,b}; {}",
        ": <<< a; {}",
        ": \\\n; {}",
    ),
)
"""What has a command in it."""
BEFORE = (
    *(
        "A=1 ",
        "A='a;b' ",
        'A="x y" ',
        "MSG='a & b' ",
        "A+=1 ",
        "a[0 1]=x ",
        "A=$(:) ",
        "A=(b) ; ",
        "A=`:` B=2 ",
        "A=' b' C= ",
        "A=\\; ",
    ),
    *(
        ">&- ",
        ">&-",
        "<&-",
        "2>&1 ",
        ">f ",
        "2>f ",
        "&>f ",
        ">|f ",
        "<>f ",
        "3>&1 ",
        "<<<x ",
        "{fd}>f ",
        ">f 2>&1 ",
        "<f1 ",
        "2>/dev/null ",
    ),
    *(
        ">'a b' ",
        ">>f ",
        "2>&1 >f ",
        ">&2 ",
        "$x ",
        "$x$y ",
        "`:` ",
        "$(:) ",
        "${x} ",
        "\\\n",
        "  ",
        "\t",
        "< <(:) ",
        "3<f1 4>&2 ",
    ),
)
"""What may stand before the name."""
READERS = (
    *(
        "bash",
        "sh -s",
        "timeout 5 bash",
        "xargs env",
        "xargs -I@ sh -c @",
        "split --filter 'bash -s'",
        "nice sh",
        "bash +x",
        "linux64",
    ),
    *(
        "tee FILE | cat; bash FILE",
        "tee FILE; chmod +x FILE; ./FILE",
        "dd of=FILE; . ./FILE",
        "bash -o posix",
        "sed e",
        "unshare -U",
    ),
    *(
        "sed 's,^,,e'",
        "sed -n 's|x*||e'",
        "perl -ne system",
        "setarch x86_64",
        "choom -n 0 -- bash",
        "env dash",
    ),
    *(
        "tee bin/FILE; chmod +x bin/FILE; FILE",
        "split -b 9999 - FILE; sh FILEaa",
        "while read x; do eval $x; done",
        "awk '{system($0)}'",
    ),
    *("bash -s x", "sh -s -- x", "bash --posix -s v", "sh /dev//stdin", "bash /dev/./fd/0", "sh /proc/thread-self/fd/0"),
    *("command . /dev//stdin", "sed 's/^//eg'", "sed ' e'", "sed -ne1e", "sed '1 e'", "linux64 linux32"),
    *(
        "tee FILE; chmod +x FILE; nice ./FILE",
        "tee bin/FILE; chmod +x bin/FILE; timeout 5 FILE",
        "tee FILE; command . ./FILE",
        "dd of=FILE; nice bash FILE",
        "tee FILE; sed -i.b p FILE; sh FILE.b",
        "tee FILE; cp -b --suffix=y f1 FILE; sh FILEy",
        "tee FILE; bash --rcfile FILE -ic true",
        "tee FILE; chmod +x FILE; find f1 -exec ./FILE ';'",
    ),
)
"""What runs what it reads."""
HALF = 0.5
BEHIND = (
    " >f",
    " 2>&1",
    ">f",
    " <f1",
    " &>f",
    " $x",
    ' ""',
    " # rm",
    " *",
    " ~",
    " {a,b}",
    " 'a b'",
    ' "a;b"',
    " $(:)",
    " <<< x",
    " >&-",
    ";",
    " ;",
    " |cat",
    " &",
)


def drawn(random: Random, command: str) -> str:
    """A spelling of a command; one of two has only what a plain command may have."""
    plain = random.random() < HALF
    text = _simple(random, list(random.choice(COMMANDS[command])), plain=plain)
    for _ in range(random.choice((0, 0, 1, 1, 1, 2, 2, 3))):
        text = _nested(random, text, plain=plain).replace("FILE", f"s{len(text)}")  # which never runs itself
    return text


def _simple(random: Random, words: list[str], *, plain: bool) -> str:
    """The command alone, in plain words or in others."""
    before = random.choice(OPTIONS[words[0]]) if words[0] in OPTIONS and random.random() < HALF else []
    program, said = words[0], " ".join(words)
    words = [random.choice(("", "", "", "./bin/", "bin/", "bin//")) + program, *before, *words[1:]]
    spelled = [random.choice(_ways(word, random.randrange(len(word)), plain=plain)) for word in words]
    rest = " ".join(words[1:])
    held = (
        *(f"hash -p bin/{program} y; y {rest}", f"shopt -s expand_aliases\nalias y={program}\ny {rest}"),
        *(
            f"find bin/{program} -exec '{{}}' {rest} ';'",
            f"echo {program} | xargs -I@ @ {rest}",
            f"echo {rest} | xargs {program}",
        ),
        *(
            f"X={program}; $X {rest}",
            f"X={program[:1]} Y={program[1:]}; $X$Y {rest}",
            f"$(echo {program}) {rest}",
            f"X='{said}'; $X",
        ),
        *(f'a=({said}); "${{a[@]}}"', f'set -- {said}; "$@"', "{" + ",".join(words) + ",}", f"bin/{program[0]}* {rest}"),
        f"eval {program[0]}\\\\{' '.join(words)[1:]}",
    )
    gap = " " if plain else random.choice((" ", "  ", "\t", " \\\n"))
    text = random.choice((" ".join(words), gap.join(spelled), random.choice(_such(held, plain=plain))))
    if random.random() < HALF:
        text = random.choice(_such(BEFORE, plain=plain)) + text + random.choice(("", *_such(BEHIND, plain=plain)))
    return _filled(random.choice(_such(WRAPPERS, plain=plain)), text) if random.random() < HALF else text


def _nested(random: Random, text: str, *, plain: bool) -> str:
    """What runs the text."""
    if random.random() < HALF:
        return _filled(random.choice(_such(NESTING, plain=plain)), text)
    if random.random() < 1 / 8:
        return f"echo {base64.b64encode(text.encode()).decode()} | base64 -d | {random.choice(READERS)}"
    marks = '"' if plain else '\\"$`'
    quoted = '"' + "".join(f"\\{char}" if char in marks else char for char in text) + '"'
    return _filled(random.choice(_such(RUNNING, plain=plain)), random.choice((shlex.quote(text), quoted)))


def _filled(part: str, text: str) -> str:
    return part.replace("{}", text)


def _such(parts: tuple[str, ...], *, plain: bool) -> tuple[str, ...]:
    return tuple(part for part in parts if is_plain_script(_filled(part, "x"))) if plain else parts


def _ways(word: str, place: int, *, plain: bool) -> tuple[str, ...]:
    """A word in other signs, which are at a place of it."""
    quoted = (
        word,
        f"'{word}'",
        f'"{word}"',
        f"{word[:place]}''{word[place:]}",
        f"{word[:place]}'{word[place:]}'",
        f'"{word[:place]}"{word[place:]}',
    )
    if plain:
        return quoted
    return (
        *quoted,
        "".join(f"\\{char}" for char in word),
        f"{word[:place]}\\{word[place:]}",
        f"{word[:place]}\\\n{word[place:]}",
        f"{word[:place]}$x{word[place:]}" if not word[place:][:1].isalnum() else f"{word[:place]}${{x}}{word[place:]}",
        f"{word[:place]}$(:){word[place:]}",
        f"{word[:place]}`:`{word[place:]}",
        f"{word[:place]}${{x:-}}{word[place:]}",
        "$'" + "".join(f"\\x{ord(char):02x}" for char in word) + "'",
        "$'" + "".join(f"\\{ord(char):03o}" for char in word) + "'",
        f"{word[:place]}$'{word[place]}'{word[place + 1 :]}",
        f'$"{word}"',
        f"${{x:-{word}}}",
        f"${{x-{word}}}",
        f"$(echo {word})",
        f"`echo {word}`",
        f"{{{word},}}",
    )
