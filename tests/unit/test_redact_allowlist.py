"""The table of commands that may run on a host: it holds what is asked, and nothing that changes anything."""

from __future__ import annotations

import importlib
import pkgutil
import re
import shlex

import pytest

import recon.tasks.facts
from recon.agent.connectors.allowlist import ROWS, SCRIPTS, check_argv, expands
from recon.agent.model.errors import UsageError

FORBIDDEN = {
    "rm", "mv", "cp", "kill", "pkill", "stop", "restart", "start", "reload", "enable", "disable", "mask", "install", "--gpu-reset", "-pm", "-pl",
    "-mig", "-c", "-e", "-lgc", "reset", "tee", ">", ">>", "|", ";", "&", "dd", "mkfs", "apt", "apt-get", "pip", "sudo", "su", "sh", "bash", "eval",
    "exec", "xargs", "-exec", "-execdir", "-delete", "-ok", "-fprintf", "-fls", "-i", "--in-place", "set-property", "edit", "run", "rmi", "prune",
    "checkout", "pull", "fetch", "clone", "--set", "-w", "-C", "--clear", "-o", "-X", "-d",
}  # fmt: skip
# Words of the list that mean something harmless behind one command.
HARMLESS = {
    ("head", "-c"), ("tail", "-c"), ("wc", "-c"), ("stat", "-c"), ("test", "-e"), ("test", "-d"), ("test", "-w"), ("readlink", "-e"),
    ("realpath", "-e"), ("grep", "-e"), ("ps", "-e"), ("ps", "-o"), ("lsblk", "-o"), ("findmnt", "-o"), ("journalctl", "-o"), ("lscpu", "-e"),
    ("<python>", "pip"), ("<python>", "-c"), ("git", "-C"),
}  # fmt: skip


def test_no_row_holds_a_word_that_changes_something() -> None:
    found = []
    for row in ROWS:
        words = [choice for word in shlex.split(row) for choice in word.strip("[]").split("|")]
        found += [(words[0], w) for w in words if w in FORBIDDEN and (words[0], w) not in HARMLESS]
    assert found == []


def test_the_few_harmless_words_stand_in_rows_that_only_read() -> None:
    assert [r for r in ROWS if r.startswith("<python>") and "pip" in r.split()] == [
        "<python> -m pip list --format json [--disable-pip-version-check]",
        "<python> -m pip list --format=json [--disable-pip-version-check]",
    ]
    assert all(r.split()[4] in ("rev-parse", "status", "remote") for r in ROWS if r.startswith("git"))


@pytest.mark.parametrize(
    "line",
    [
        "rm -rf /x", "nvidia-smi --gpu-reset", "nvidia-smi -pm 1", "nvidia-smi -r", "nvidia-smi -i 0 -pl 300", "nvidia-smi -L -r",
        "nvidia-smi --query-gpu=index --format=csv -f /etc/x", "nvidia-smi --query-gpu=index --format=csv --filename=/x",
        "nvidia-smi topo -m --gpu-reset", "systemctl stop x", "systemctl show --now x", "systemctl restart x.service",
        "systemctl show x -p Id --root=/x", "systemctl -H other show x", "find / -delete", "find /x -maxdepth 2 -name a -exec rm {} +",
        "find /x -maxdepth 1 -fprintf /y z", "cat relative", "cat", "cat --", "cat -- -x", "cat /a/../b", "sh -c id", "bash -c id",
        "du -x -B1 -d1 /", "docker inspect x", "docker run x", "docker ps --format '{{.Env}}'", "python3 -c 'import os'", "python3 -I -c 'import os'",
        "python3 -m pip install x", "python3 -m pip list --format json --user", "python3 /x.py", "/usr/bin/python3 -I /x.py",
        "git -C /x status", "git --no-optional-locks -C /x checkout y", "journalctl --vacuum-size=1M", "journalctl -k -b --rotate", "dmesg -C",
        "dmesg --clear", "curl http://127.0.0.1:1/x", "curl -sS -m 3 http://127.0.0.1:1/health -o /x", "curl -sS -m 3 http://evil/health",
        "curl -sS -m 3 http://127.0.0.1:1/shutdown", "ip link set eth0 down", "ss -K", "grep -rf /etc/shadow x /y", "ls ../x", "ulimit -l unlimited",
        "tail -f /x", "env", "printenv", "sudo -n cat /x", "numactl --membind=0 ls", "which -a", "timeout 5 cat /x", "",
    ],
)  # fmt: skip
def test_what_is_not_in_the_table_is_refused(line: str) -> None:
    with pytest.raises(UsageError):
        check_argv(shlex.split(line))


@pytest.mark.parametrize(
    "path",
    [
        "/root/.ssh/id_rsa", "/home/x/.ssh/authorized_keys", "/etc/shadow", "/etc/shadow-", "/proc/1/environ", "/proc/kcore", "/proc/1/mem",
        "/root/.cache/huggingface/token", "/root/.netrc", "/root/.docker/config.json", "/etc/ssl/private/x", "/srv/tls/server.key", "/srv/x.pem",
        "/root/.aws/credentials", "/srv/app/.env", "/srv/app/.env.local", "/dev/nvme0n1", "//dev/sda", "/dev/zero", "/root/.kube/config",
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["cat -- {}", "head -c 10 {}", "grep -r x {}", "sha256sum {}"])
def test_secrets_and_devices_are_not_read(command: str, path: str) -> None:
    with pytest.raises(UsageError, match=r"secrets|device"):
        check_argv([word.format(path) for word in shlex.split(command)])


@pytest.mark.parametrize(
    "line",
    [
        "cat -- /proc/sys/kernel/random/boot_id", "cat /proc/1/cmdline", "cat -- '/srv/a b/$(x).json'", "ls /sys/class/infiniband", "ls -1 -- /x",
        "ls -d -- /usr/local/cuda*", "ls -la /dev/shm /dev/nvidia0", "df -P -B1", "df -P -B1 -l", "df -P -B1 -- /root/models", "df -iP /",
        "du -x -B1 -d1 /root/models", "du -x -B1 -s /root/x", "findmnt -J --target /x -o TARGET,SOURCE,FSTYPE,OPTIONS", "ss -ltnp", "ulimit -l",
        "nvidia-smi topo -m", "nvidia-smi topo -p2p rw", "nvidia-smi -L", "nvidia-smi",
        "nvidia-smi --query-gpu=index,name,pcie.link.gen.max --format=csv,noheader,nounits",
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory --format=csv,noheader,nounits",
        "systemctl show a-b@1.service --no-pager -p Id,MainPID", "systemctl show a.service -p Id --no-pager", "systemctl cat -- a.service",
        "systemctl list-units --type=service --all --plain --no-legend --no-pager sglang* *llm*", "grep -E 'Limit|open files|locked' /proc/12/limits",
        "grep -rE --include=*.py -- '^EntryClass|x' /v/site-packages/sglang/srt/models", "grep -H . /sys/bus/pci/devices/0000:01:00.0/numa_node",
        "/v/bin/python -m pip list --format json --disable-pip-version-check", "/v/bin/python3.12 --version", "nvcc --version",
        "/usr/local/cuda-13.0/bin/nvcc --version", "find /root/models -maxdepth 2 -name config.json", "readlink /proc/12/exe",
        "curl -sS -m 3 http://127.0.0.1:30000/health", "docker ps --no-trunc --format '{{json .}}'", "sha256sum -- /a /b", "which numactl nvcc",
        "git --no-optional-locks -C /srv/sglang rev-parse HEAD", "journalctl -u a.service --no-pager -n 200", "numactl -H", "lscpu -J",
    ],
)  # fmt: skip
def test_what_recon_asks_is_in_the_table(line: str) -> None:
    check_argv(shlex.split(line))


def test_the_argument_vectors_of_the_shipped_facts_are_in_the_table() -> None:
    checked = []
    for module in pkgutil.iter_modules(recon.tasks.facts.__path__):
        loaded = importlib.import_module(f"recon.tasks.facts.{module.name}")
        for name, argv in vars(loaded).items():
            if name.endswith("_ARGV"):
                check_argv(argv)
                checked.append(name)
    assert len(checked) >= 10


def test_known_programs_may_run_and_no_others() -> None:
    for text in SCRIPTS.values():
        check_argv(["/v/bin/python", "-I", "-c", text])
        with pytest.raises(UsageError, match="not a program"):
            check_argv(["/v/bin/python", "-I", "-c", text + " "])
        assert not re.search(r"\b(open|exec|eval|subprocess|os)\b", text)


def test_only_patterns_of_system_folders_are_expanded() -> None:
    assert expands("/sys/bus/pci/devices/*/numa_node") and expands("/usr/local/cuda*")
    assert not any(
        expands(w)
        for w in (
            "/root/*",
            "*",
            "/sys/$(x)*",
            "/sys/a b*",
            "/sys/*;id",
            "/sys/plain",
            "/sys/*`id`",
            "/sys/*\nid",
        )
    )
