"""The programs that a process starts, by their words: does our code run in all that come of them?

A Python runs our code if it imports `sitecustomize` from this folder, with the variables of the run. So a command is
followed through `env` and its like, scripts and the text of shells, as far as that can be read, to the Pythons at its
end. A program that can't be followed might start any Python, or reach the outside without one. Only a few small
programs do neither: they work with files and the terminal, which no guard judges.

Nothing is run to find out, and whoever wants to deceive this can: it's for programs that mean no harm.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import NoReturn

FOLDER = os.path.dirname(__file__)  # noqa: PTH120 - pathlib is not loaded yet
RUN = "_AGENTTAPE_RUN"  # the variable with the folder of the run

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_MAX_NAME = 60
_MULTIPROCESSING = ("from multiprocessing.", "import sys; from multiprocessing.")
"""The beginnings of the code that the module runs in its processes; its numbers differ from run to run."""

_DEAF = frozenset("IES")
"""The options of Python that keep it from reading `PYTHONPATH`, or from importing `sitecustomize`."""

_PYTHONS = ("python", "pypy")  # the beginnings of the names of a Python
_OF_ENV = {"--ignore-environment": "i", "--unset": "u", "--chdir": "C", "--split-string": "S", "--argv0": "a"}
"""The long options of `env` that change the command or have a value, and their letters."""
_LAUNCHERS = {
    "timeout": ("ks", 1),
    "xargs": ("adEILnPs", 0),
    "nice": ("n", 0),
    "stdbuf": ("ioe", 0),
    "ionice": ("cn", 0),
    "time": ("fo", 0),
    "exec": ("a", 0),
    **dict.fromkeys(("nohup", "setsid", "command", "builtin"), ("", 0)),
}
"""The programs and words that run the command behind them in their own environment: the letters of their options with a
value, and the number of their arguments before the command."""
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})
_KEYWORDS = frozenset({"if", "then", "elif", "else", "while", "until", "do", "{", "!"})
"""The words of a shell before a command."""
_NO_COMMANDS = frozenset({"fi", "done", "}", "for"})  # the words of a shell that begin something without a command
_CLEARING = frozenset({"sudo", "doas", "su", "runuser", "systemd-run", "at", "batch"})
"""The programs that start others in another environment."""
_HARMLESS = frozenset(
    {
        *("cd", "echo", "printf", "exit", "return", "set", "shift", "true", "false", "test", "[", ":", "wait", "pwd"),
        *("umask", "read", "break", "continue", "cat", "tee", "ls", "head", "tail", "mkdir", "rmdir", "rm", "cp", "mv"),
        *("ln", "touch", "chmod", "sleep", "date", "sort", "uniq", "wc", "grep", "tr", "cut", "basename", "dirname"),
        *("uname", "mktemp", "realpath", "readlink", "diff", "cmp", "which"),
    }
)
"""The programs, and words of a shell, that start no others and work with files and the terminal."""
_USUAL = ("", "/bin", "/usr/bin")  # the folders of these programs
_MAX_STARTED, _MAX_LINE, _MAX_SCRIPT = 8, 512, 65_536
"""Limits: programs followed, one starting the other, the bytes of a script's first line, and of a shell's script."""


def what_runs(words: Sequence[str]) -> tuple[str, str, list[str]]:
    """Return the options of a Python, the program that it runs, and the arguments of that."""
    options, rest = "", [word for word in words[1:] if word != "--multiprocessing-fork"]
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            return options, os.path.basename(word.rstrip(os.sep)) if word != "-" else "stdin", rest  # noqa: PTH119
        for place, letter in enumerate(word[1:], start=2):
            if letter in "mcWX-":
                value = word[place:] or (rest.pop(0) if rest and letter != "-" else "")
                if letter == "m":
                    return options, value, rest
                if letter == "c":
                    return options, "multiprocessing" if value.startswith(_MULTIPROCESSING) else "code", rest
                break
            options += letter
    return options, "stdin", rest


def label_of(words: Sequence[str]) -> str:
    """Return the label of a process: its program, without its arguments, which may differ from run to run."""
    label = "".join(char if char in _NAME else "_" for char in what_runs(words)[1])
    return label.lstrip(".-")[:_MAX_NAME] or "process"


def is_main(words: Sequence[str], command: Sequence[str]) -> bool:
    """Return True if a process is the main one of a command, whichever tools stand before it (`uv run`, `env`)."""
    asked = [os.path.basename(word) for word in words[1:]]  # noqa: PTH119
    return asked == [os.path.basename(word) for word in command[-len(asked) :]] if asked else len(command) == 1  # noqa: PTH119


def why_unguarded(words: Sequence[str], environment: Mapping[str, str]) -> tuple[str, bool]:
    """Return the reason why something might run without our code, and whether it's a Python that surely would."""
    try:
        _judge(words, dict(environment))
    except _UnguardedError as found:
        return found.reason, found.is_deaf
    return "", False


def why_deaf(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the reason why our code would surely not run in a Python that a command starts; empty if it may."""
    reason, is_deaf = why_unguarded(words, environment)
    return reason if is_deaf else ""


class _UnguardedError(Exception):
    """Raised where something isn't known to run our code. `is_deaf` means that it's a Python that surely doesn't."""

    def __init__(self, reason: str, *, is_deaf: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_deaf = is_deaf


def _judge(words: Sequence[str], environment: dict[str, str], depth: int = 0) -> None:
    """Follow a command to the programs that it starts in the end."""
    name = os.path.basename(words[0]) if words else ""  # noqa: PTH119
    if name.startswith(_PYTHONS):  # a wrapper of that name starts a Python in its own way
        _judge_python(words, environment)
    elif not name or (name in _HARMLESS and os.path.dirname(words[0]) in _USUAL):  # noqa: PTH120
        return
    elif name in _CLEARING:
        is_python = any(os.path.basename(word).startswith(_PYTHONS) for word in words)  # noqa: PTH119
        raise _UnguardedError(f"{name} gives what it starts another environment", is_deaf=is_python)
    elif depth == _MAX_STARTED:
        _unknown(name)
    elif name == "env":
        _judge(*_behind_env(list(words[1:]), environment), depth + 1)
    elif name in _LAUNCHERS:
        _judge(_behind_launcher(name, list(words[1:])), environment, depth + 1)
    elif name in _SHELLS:
        _judge_shell(name, list(words[1:]), environment, depth + 1)
    elif interpreter := _interpreter(words[0], environment.get("PATH", os.defpath)):
        _judge([*interpreter, *words], environment, depth + 1)
    else:
        _unknown(name)


def _judge_shell(name: str, rest: list[str], environment: dict[str, str], depth: int) -> None:
    options = ""
    while rest and rest[0].startswith(("-", "+")):
        options += rest.pop(0)[1:]
    if not rest or set("lios-") & set(options):
        _unknown(name)  # it reads its own files first, or commands from its input
    is_text = "c" in options
    text = rest.pop(0) if is_text else _script(rest[0])
    given = {str(number): word for number, word in enumerate(rest)}
    _judge_text(name, text, {**environment, "@": "", "*": "", **given}, depth)


def _judge_text(name: str, text: str, environment: dict[str, str], depth: int) -> None:
    """Follow each command in the text of a shell."""
    try:
        commands = list(_commands(text))
    except ValueError:
        _unknown(name)
    unknown: _UnguardedError | None = None
    for number, words in enumerate(commands):
        try:
            is_last = _judge_line(name, words, environment, depth)
        except _UnguardedError as found:
            if found.is_deaf:
                raise
            unknown, is_last = unknown or found, False
        if is_last and not number:
            break  # the rest is never read: some scripts go on in another language
    if unknown is not None:
        raise unknown


def _judge_line(name: str, words: list[str], environment: dict[str, str], depth: int) -> bool:
    """Follow a simple command of a shell, and return whether another program takes the place of the shell."""
    while words and words[0] in _KEYWORDS:
        del words[0]
    count = next((place for place, word in enumerate(words) if not _is_setting(word)), len(words))
    own = environment if count == len(words) else dict(environment)
    _set(own, words[:count])
    command = [_expanded(word, environment) for word in words[count:]]
    if command[:1] == ["export"]:
        _set(environment, command[1:])
    elif command[:1] == ["unset"]:
        for word in command[1:]:
            environment.pop(word, None)
    elif command and command[0] not in _NO_COMMANDS:
        _judge(_checked(name, command), own, depth)
    return command[:1] == ["exec"]


def _unknown(name: str) -> NoReturn:
    raise _UnguardedError(f"AgentTape can't follow what {name} starts")


def _judge_python(words: Sequence[str], environment: Mapping[str, str]) -> None:
    deaf = sorted(_DEAF & set(what_runs(words)[0]))
    if deaf:
        reason = f"the option -{''.join(deaf)} keeps Python from importing what is on PYTHONPATH"
        raise _UnguardedError(reason, is_deaf=True)
    folders = environment.get("PYTHONPATH", "").split(os.pathsep)
    if RUN not in environment or FOLDER not in folders:
        raise _UnguardedError("Python is not given the environment of the process that starts it", is_deaf=True)
    for folder in folders[: folders.index(FOLDER)]:
        if any(os.path.exists(os.path.join(folder, f"sitecustomize{end}")) for end in ("", ".py")):  # noqa: PTH110, PTH118
            raise _UnguardedError(f"the sitecustomize in {folder} comes before AgentTape's", is_deaf=True)


def _behind_launcher(name: str, rest: list[str]) -> list[str]:
    """Return the command behind the options and arguments of a program that runs it."""
    valued, count = _LAUNCHERS[name]
    while rest and rest[0].startswith("-") and (option := rest.pop(0)) != "--":
        if option.startswith("--") and "=" not in option:
            _unknown(name)  # the next word may be its value
        for place, letter in enumerate(option[1:], start=2):
            if (name, letter) in {("xargs", "I"), ("xargs", "i"), ("command", "v"), ("command", "V")}:
                _unknown(name)  # the command is made of what it reads, or isn't run
            if letter in valued:
                if not option[place:] and rest:
                    del rest[0]
                break
    rest = rest[count:]
    is_python = bool(rest) and os.path.basename(rest[0]).startswith(_PYTHONS)  # noqa: PTH119
    if name == "xargs" and is_python and what_runs(rest)[1] == "stdin":
        _unknown(name)  # it reads the program, or options before it
    return rest


def _script(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as script:  # noqa: PTH123
            text = script.read(_MAX_SCRIPT)
    except OSError:
        text = ""
    if not text or len(text) == _MAX_SCRIPT:
        _unknown(os.path.basename(path))  # noqa: PTH119
    return text


_PUNCTUATION = "();<>|&\n"


def _commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command in the text of a shell. Raises `ValueError` if it's unreadable."""
    import shlex  # only here: few processes start a shell

    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    words: list[str] = []
    is_target = is_comment = False
    for token in lexer:
        if set(token) <= set(_PUNCTUATION):
            is_redirection = bool({"<", ">"} & set(token))
            if "<<" in token or (is_redirection and set("();\n|") & set(token)):
                raise ValueError(token)
            is_comment = is_comment and "\n" not in token
            is_target = is_redirection
            if not is_redirection and words and not is_comment:
                yield words
                words = []
        elif is_comment or is_target:
            if is_target and token.startswith(("/dev/tcp", "/dev/udp")):
                raise ValueError(token)  # bash connects
            is_target = False
        elif token.startswith("#"):
            is_comment = True
        else:
            words.append(token)
    if words:
        yield words


def _is_setting(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def _set(environment: dict[str, str], words: Sequence[str]) -> None:
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            environment[name] = _expanded(value, environment)


def _expanded(word: str, environment: Mapping[str, str]) -> str:
    """Return a word with the values of the variables that are known."""
    import re

    return re.sub(
        r"\$(?:\{(\w+|[@*#])\}|(\w+|[@*#]))", lambda found: environment.get(found[1] or found[2], found[0]), word
    )


def _checked(name: str, words: list[str]) -> list[str]:
    """Return a command with the words that a shell makes of it, unless parts are run or unknown before."""
    if any(mark in word for word in words for mark in ("$(", "`")):
        _unknown(name)
    words = [part for word in words[:1] for part in word.split()] + words[1:]
    if words and os.path.basename(words[0]).startswith(_PYTHONS):  # noqa: PTH119
        before = len(words) - len(what_runs(words)[2])
        if any("$" in word for word in words[:before] if word != words[before - 1] or "-c" not in words):
            _unknown(name)
    elif words and "$" in words[0]:
        _unknown(name)
    return words


def _behind_env(rest: list[str], environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    while rest and rest[0].startswith("-") and (option := rest.pop(0)) != "--":
        name, _, value = option.partition("=")
        letters = "i" if option == "-" else _OF_ENV.get(name, "") if option.startswith("--") else option[1:]
        for place, letter in enumerate(letters, start=2):
            if letter == "i":
                environment.clear()
            elif letter in "uCSa":
                value = (value if option.startswith("--") else option[place:]) or (rest.pop(0) if rest else "")
                if letter == "u":
                    environment.pop(value, None)
                elif letter == "S":
                    rest = [*value.split(), *rest]
                break
    while rest and "=" in rest[0]:
        name, _, value = rest.pop(0).partition("=")
        environment[name] = value
    return rest, environment


def _interpreter(program: str, path: str) -> list[str]:
    """Return the words in the first line of a script; none for other programs."""
    for folder in [""] if os.sep in program else path.split(os.pathsep):
        file = os.path.join(folder, program)  # noqa: PTH118
        if os.path.isfile(file) and os.access(file, os.R_OK | os.X_OK):  # noqa: PTH113
            with open(file, "rb") as script:  # noqa: PTH123
                line = script.readline(_MAX_LINE)
            return os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    return []
