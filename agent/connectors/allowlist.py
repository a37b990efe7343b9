"""The read-only commands that recon may run on a host, as data. Everything else is refused before it is sent.

A row is a command line. `<kind>` stands for an argument of a kind (see `_KINDS`), `[word]` may be left out, `a|b` is either,
and `<kind>+`/`<kind>*` repeat. A command that can also change something (nvidia-smi, systemctl, find, docker, git) is listed
with its reading forms only, argument by argument.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from recon.agent.model.base import sha256_hex
from recon.agent.model.errors import UsageError

ROWS: Final[tuple[str, ...]] = (
    # identity
    "uname -a|-r|-m", "hostname", "id -un|-Gn|-u", "date +%s", "nproc", "uptime -s", "systemd-detect-virt",
    # files: paths are absolute, without `..`, and never a place where secrets live
    "cat [--] <path>+", "head -c|-n <int> [--] <path>+", "tail -c|-n <int> [--] <path>+", "wc -c|-l [--] <path>+",
    "sha256sum [--] <path>+", "readlink [-f|-e] [--] <path>+", "stat [-L] -c <format> [--] <path>+", "test -e|-d|-f|-r|-w|-x <path>",
    "stat -f -c <format> [--] <path>+", "ls <lsflag>* [--] <path>+", "realpath [-e] [--] <path>+",
    "find [-L] <path>+ -maxdepth <int> [-xdev] [-type] [f|d|l] [-name] [<name>] [-printf] [<format>]",
    "grep <grepflag>* [--] <pattern> <path>+", "grep <grepflag>* -e <pattern> [--] <path>+",
    # GPUs
    "nvidia-smi", "nvidia-smi -L", "nvidia-smi --version", "nvidia-smi --help-query-gpu", "nvidia-smi -q [-x]",
    "nvidia-smi --query-gpu=<fields> --format=<csv>", "nvidia-smi --query-compute-apps=<fields> --format=<csv>",
    "nvidia-smi topo -m", "nvidia-smi topo -p2p r|w|rw|n|a|p", "nvidia-smi nvlink -s",
    "rocm-smi --showtopo|--showtoponuma|--showid",
    "nvcc --version", "<cuda>/nvcc --version", "lsmod", "lspci [-D] [-nn] [-vvv|-vv|-v|-t|-tv]", "modinfo nvidia|amdgpu",
    # processors and memory
    "lscpu [-J] [-e|-p]", "numactl -H|--hardware|-s|--show", "free -b|-k", "ulimit -l", "getconf PAGE_SIZE|LONG_BIT|GNU_LIBC_VERSION",
    # disks
    "df -P -B1 [-l] [--] <path>*", "df -P -B1 -T [-l] [--] <path>*", "df -iP|-Pi [--] <path>*", "df -h [--] <path>*",
    "du -x -B1 -d0|-d1|-d2|-s [--] <dir>+", "du -x -B1 [--] <dir>+", "lsblk -J -b -o <columns>",
    "findmnt -J --target <path> -o <columns>", "findmnt -J -T <path> -o <columns>", "findmnt -J [-o] [<columns>]",
    # services, processes, ports
    "systemctl [--user] list-units <listflag>* <unitglob>*", "systemctl [--user] list-unit-files <listflag>* <unitglob>*",
    "systemctl [--user] list-timers <listflag>* <unitglob>*",
    "systemctl [--user] show [--no-pager] [--] <unit> [--no-pager]",
    "systemctl [--user] show <unit> [--no-pager] <property>+ [--no-pager]", "systemctl [--user] show <unit> --no-pager -p <columns>",
    "systemctl [--user] show <unit> -p <columns> [--no-pager]", "systemctl [--user] show --no-pager -p <columns> [--] <unit>",
    "systemctl [--user] cat [--no-pager] [--] <unit>", "systemctl [--user] status [--no-pager] [-l] [--] <unit> [--no-pager]",
    "systemctl [--user] is-active|is-enabled|is-failed [--] <unit>+",
    "ps -e -o <columns>", "ps -o <columns> -p <pids>", "pgrep -a|-f|-af <pattern>",
    "ss [-H] -ltnp|-ltn", "ip -j addr|link|route [show]", "journalctl -k -b --no-pager -o cat -g <pattern> -n <int>", "dmesg",
    "journalctl [--user] -u <unit> --no-pager [-o] [cat|short-iso] -n <int>",
    "curl -sS -m <int> http://127.0.0.1:<int>/<status>", "curl -fsS -m <int> http://127.0.0.1:<int>/<status>",
    # networks for GPUs
    "ibv_devinfo [-v]", "ibv_devices", "ibstat", "ibdev2netdev", "rdma link [show]",
    # containers: never a whole inspect, its Env holds secrets
    "docker --version", "docker ps [-a] [--no-trunc] --format '{{json .}}'", "docker system df",
    "docker inspect --format '{{json .HostConfig.DeviceRequests}} {{.State.Pid}} {{.Config.Image}}' <container>+",
    # Python environments
    "<python> --version|-V", "<python> -m pip list --format json [--disable-pip-version-check]",
    "<python> -m pip list --format=json [--disable-pip-version-check]", "<python> -I -c <script>", "<python> -I -c <script> <word>+",
    "git --no-optional-locks -C <path> rev-parse HEAD", "git --no-optional-locks -C <path> status --porcelain",
    "git --no-optional-locks -C <path> remote -v", "which <word>+",
)  # fmt: skip

# The only programs that may be handed to an interpreter: standard library, reading only, by the sha256 of their text.
SCRIPTS: Final[dict[str, str]] = {
    "packages": "import importlib.metadata as m, json; "
    "print(json.dumps({d.metadata['Name']: d.version for d in m.distributions()}, sort_keys=True))",
}
SCRIPT_SHAS: Final = frozenset(sha256_hex(text) for text in SCRIPTS.values())

_KINDS: Final[dict[str, str]] = {
    "path": r"/[^\x00-\x1f\x7f]*",
    "dir": r"/[^\x00-\x1f\x7f/][^\x00-\x1f\x7f]*",  # never / itself: walking it takes an hour
    "int": r"\d{1,9}",
    "fields": r"[a-z0-9_.]+(?:,[a-z0-9_.]+)*",
    "csv": r"csv(?:,noheader)?(?:,nounits)?",
    "columns": r"[A-Za-z0-9_%:-]+(?:,[A-Za-z0-9_%:-]+)*",
    "pids": r"\d+(?:,\d+)*",
    "property": r"-p[A-Za-z]+(?:,[A-Za-z]+)*|--property=[A-Za-z]+(?:,[A-Za-z]+)*",
    "listflag": r"--(?:type=[a-z]+|state=[a-z,]+|all|plain|no-legend|no-pager|full)",
    "unit": r"[A-Za-z0-9@:._\\][A-Za-z0-9@:._\\-]*",
    "unitglob": r"[A-Za-z0-9@:._\\*?][A-Za-z0-9@:._\\*?-]*",
    "lsflag": r"-[1AadlLFnt]+",
    "grepflag": r"-[HhlnorEFwisqcmaP]+\d*|--include=[\w.*-]+|--exclude-dir=[\w.*-]+|--max-count=\d+|--no-messages",
    "pattern": r"[^-\x00-\x1f\x7f][^\x00-\x1f\x7f]{0,400}",
    "name": r"[\w.*?+-]+",
    "format": r"[^-\x00-\x1f\x7f][^\x00-\x1f\x7f]{0,100}",
    "word": r"[A-Za-z0-9_][\w.,:@%+=/-]*",
    "container": r"[A-Za-z0-9][\w.-]*",
    "cuda": r"/usr/local/cuda[\w.-]*/bin",
    "python": r"/[^\x00-\x1f\x7f]*/python[0-9.]*|python3?",
    "status": r"health|health_generate|get_model_info|model_info|get_server_info|server_info|v1/models|workers",
    "script": r"[\s\S]+",
}

# Where secrets or devices live. Reading one is never a fact about a deployment.
_SECRET_PLACE: Final = re.compile(
    r"(?i)(?:^|/)(?:\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.netrc|\.pgpass|\.git-credentials|\.env(?:\.[\w.]+)?|g?shadow-?|"
    r"id_(?:rsa|dsa|ecdsa|ed25519)\w*|environ|kcore|kmsg|mem|stored_tokens)(?:/|$)|/huggingface/token$|"
    r"\.docker/config\.json$|\.(?:pem|key|p12|pfx|kdbx)$|^/etc/ssl/private|^/var/lib/private"
)
_DEVICE: Final = re.compile(r"^/+dev/(?!shm(?:/|$))")
_LISTS: Final = frozenset(
    {"ls", "test", "stat", "readlink", "df"}
)  # these look at a device's entry, not into it
_EXPANDS: Final = re.compile(r"^/(?:sys|proc|dev|usr/local/cuda)[\w./*:-]*$")

_Matcher: TypeAlias = tuple[
    re.Pattern[str], bool, bool
]  # what an argument must be, may it lack, may it repeat


def check_argv(argv: Sequence[str]) -> None:
    """Raises UsageError unless the argument vector is one of the read-only commands of the table."""
    words = tuple(argv)
    if not words or not any(_fits(row, words) for row in _compiled()):
        raise UsageError(
            f"not a read-only command that recon may run: {shlex.join(words)[:300]}",
            hint="what may run is listed in recon/agent/connectors/allowlist.py",
        )
    for word in words[1:]:
        _check_place(words[0], word)
    if "-c" in words[:3] and "-I" in words[:2] and sha256_hex(words[3]) not in SCRIPT_SHAS:
        raise UsageError(
            f"not a program that recon may run with {words[0]}", hint="see SCRIPTS in allowlist.py"
        )


def expands(word: str) -> bool:
    """Whether an argument is a pattern of paths under /sys, /proc or the CUDA folders that the host expands."""
    return "*" in word and _EXPANDS.match(word) is not None


def _check_place(command: str, word: str) -> None:
    if not word.startswith("/"):
        return
    if ".." in word.split("/"):
        raise UsageError(f"a path with '..' is not read: {word[:200]}")
    if _SECRET_PLACE.search(word):
        raise UsageError(
            f"{word[:200]} may hold secrets and is not read", hint="name the fact you need instead"
        )
    if _DEVICE.match(word) and command not in _LISTS:
        raise UsageError(f"{word[:200]} is a device and is not read")


def _fits(row: tuple[_Matcher, ...], words: tuple[str, ...]) -> bool:
    """Whether the words are the row: walks all places in the row that the words so far can have reached."""
    places = _skip(row, {0})
    for word in words:
        reached: set[int] = set()
        for place in places:
            if place < len(row) and row[place][0].fullmatch(word):
                reached.add(place + 1)
                if row[place][2]:
                    reached.add(place)
        places = _skip(row, reached)
    return len(row) in places


def _skip(row: tuple[_Matcher, ...], places: set[int]) -> set[int]:
    """The places, and those behind arguments that may be left out."""
    out = set(places)
    for place in sorted(places):
        while place < len(row) and row[place][1]:
            place += 1
            out.add(place)
    return out


@lru_cache(maxsize=1)
def _compiled() -> tuple[tuple[_Matcher, ...], ...]:
    return tuple(tuple(_matcher(word) for word in shlex.split(row)) for row in ROWS)


def _matcher(word: str) -> _Matcher:
    optional = word.startswith("[") and word.endswith("]")
    word = word[1:-1] if optional else word
    repeats = word.endswith((">+", ">*"))
    optional = optional or word.endswith(">*")
    word = word[:-1] if repeats else word
    choices = [word] if "<" in word or "{{" in word else word.split("|")
    return re.compile("|".join(f"(?:{_pattern(c)})" for c in choices)), optional, repeats


def _pattern(word: str) -> str:
    parts = re.split(r"<([a-z]+)>", word)
    return "".join(f"(?:{_KINDS[p]})" if n % 2 else re.escape(p) for n, p in enumerate(parts))
