"""What a task costs: recon against a bare loop and, where installed, other engines, in one run.

    python benchmarks/engine.py                       recon and the floor
    python benchmarks/engine.py --python PATH         and the peers that this other interpreter has (benchmarks/peers)
    python benchmarks/engine.py --kill                also kill -9 in the middle, and count what is done twice
    python benchmarks/engine.py --check               exit 1 where a target is missed

Every measurement is a fresh process with a fresh state folder; the smallest CPU time of the repeats counts, since other
load only ever adds. Per task = (graph - a graph of one task) / (tasks - 1), so start-up is left out and shown apart.
Each task body writes two lines to a log: executions are counted, not assumed.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from graphs import named

HERE = Path(__file__).resolve().parent
FAN, LAYERED, LARGE, ONE = "fan:1000", "layered:10x20", "fan:10000", "fan:1"
PEERS = ("doit", "luigi", "dbos", "langgraph", "hamilton")
LIMIT_S = 300.0  # one measurement; a peer that takes longer is shown as such

# Targets, per task in CPU ms, and in CPU seconds.
MOST_PER_TASK_MS = 0.6
MOST_TIMES_FLOOR = 4.0
MOST_RESUME_S = 0.3
MOST_HELP_S = 0.15
MOST_GROWTH = 1.25  # cost per task of 10,000 tasks over that of 1,000: linear, with room for noise


class Failed(Exception):
    """A measurement could not be made; the text says why."""


@dataclass(frozen=True)
class Cost:
    """One process from start to end: CPU (user + system, children included) and wall, seconds; peak memory, MB."""

    cpu: float
    wall: float
    memory_mb: float


@dataclass
class Subject:
    """An engine under test and what was measured of it."""

    name: str
    command: tuple[str, ...]
    one: Cost | None = None
    costs: dict[str, Cost] = field(default_factory=dict)
    resume: Cost | None = None
    repeated: int | None = None
    failed: str = ""

    def per_task_ms(self, graph: str) -> float | None:
        """CPU milliseconds per task without start-up."""
        cost = self.costs.get(graph)
        if cost is None or self.one is None:
            return None
        return 1000 * (cost.cpu - self.one.cpu) / (len(named(graph)) - 1)


def measure(command: tuple[str, ...], *, timeout_s: float = LIMIT_S) -> Cost:
    """Runs a command to its end. Raises Failed where it fails or takes too long."""
    with TemporaryFile() as said:  # a file and not a pipe: nobody reads while the child runs
        begun = time.perf_counter()
        process = _start(command, stderr=said.fileno())
        try:
            status, usage = _wait(process.pid, begun + timeout_s)
        except BaseException:
            process.kill()
            process.wait()
            raise
        wall = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
            raise Failed(lines[-1][:100] if lines else f"exit {process.returncode}")
    return Cost(cpu=usage.ru_utime + usage.ru_stime, wall=wall, memory_mb=usage.ru_maxrss / 1024)


def _start(command: tuple[str, ...], *, stderr: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(HERE), "PYTHONWARNINGS": "ignore"}
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr
    )


def _wait(pid: int, deadline: float) -> tuple[int, resource.struct_rusage]:
    """Waits with wait4, which gives this child's own usage, with that of the children it waited for."""
    while time.perf_counter() < deadline:
        found, status, usage = os.wait4(pid, os.WNOHANG)
        if found:
            return status, usage
        time.sleep(0.002)
    raise Failed("took too long")


def ended(log: Path) -> list[str]:
    """The tasks whose body ran to its end, in order, repeats included."""
    if not log.exists():
        return []
    return [line.removeprefix("end ") for line in log.read_text().splitlines() if line.startswith("end ")]


def run_graph(subject: Subject, graph: str, *, again: bool = False) -> tuple[Cost, Cost | None]:
    """Runs a graph from nothing; `again`: then once more on the finished state. Raises Failed."""
    with TemporaryDirectory(prefix="bench-") as folder:
        state, log = Path(folder), Path(folder) / "log"
        arguments = (graph, str(state), str(log), "0")
        cost = measure((*subject.command, *arguments))
        done = ended(log)
        if sorted(done) != sorted(named(graph)):
            raise Failed(f"{len(done)} bodies for {len(named(graph))} tasks")
        if not again:
            return cost, None
        resumed = measure((*subject.command, *arguments))
        if len(ended(log)) != len(done):
            raise Failed(f"{len(ended(log)) - len(done)} finished tasks were run again")
        return cost, resumed


def least(costs: list[Cost]) -> Cost:
    """The cheapest of several."""
    return min(costs, key=lambda cost: cost.cpu)


def measure_subject(subject: Subject, *, repeats: int, large: bool, kill: bool) -> None:
    """Fills in everything; the first failure is kept as text and ends it."""
    try:
        run_graph(subject, ONE)  # writes bytecode; not counted
        ones, fans, again, layers = [], [], [], []
        for _ in range(repeats):  # in turn, so that other load falls on all of them alike
            ones += [run_graph(subject, ONE)[0] for _ in range(3)]
            first, second = run_graph(subject, FAN, again=True)
            fans.append(first)
            again += [second] if second is not None else []
            layers += [run_graph(subject, LAYERED)[0] for _ in range(2)]
        subject.one, subject.resume = least(ones), least(again)
        subject.costs |= {FAN: least(fans), LAYERED: least(layers)}
        if large:
            subject.costs[LARGE] = least([run_graph(subject, LARGE)[0] for _ in range(max(1, repeats - 1))])
        if kill:
            subject.repeated = killed_and_resumed(subject)
    except Failed as error:
        subject.failed = str(error)


def killed_and_resumed(subject: Subject) -> int:
    """How many finished tasks run again after kill -9 half-way (bodies of 20 ms) and a second start. Raises Failed."""
    with TemporaryDirectory(prefix="bench-") as folder:
        state, log = Path(folder), Path(folder) / "log"
        command = (*subject.command, LAYERED, str(state), str(log), "0.02")
        total = len(named(LAYERED))
        environment = {**os.environ, "PYTHONPATH": str(HERE), "PYTHONWARNINGS": "ignore"}
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            deadline = time.monotonic() + LIMIT_S
            while len(ended(log)) < total // 2:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise Failed("ended before it could be killed")
                time.sleep(0.005)
        finally:
            process.kill()
            process.wait()
        before = set(ended(log))
        measure(command)
        if set(ended(log)) != set(named(LAYERED)):
            raise Failed("tasks were lost after kill -9")
        return sum(ended(log).count(key) - 1 for key in before)


def help_cost(repeats: int) -> Cost:
    """What `recon --help` takes. Raises Failed."""
    command = (sys.executable, "-P", "-m", "recon", "--help")
    measure(command)
    return least([measure(command) for _ in range(max(5, repeats))])


def subjects(python: Path | None) -> list[Subject]:
    """recon, the floor, and the peers that the other interpreter can import."""
    found = [
        Subject("recon", (sys.executable, str(HERE / "recon_run.py"))),
        Subject("floor (asyncio + sqlite)", (sys.executable, str(HERE / "floor.py"))),
    ]
    if python is None:
        return found
    for name in PEERS:
        if subprocess.run([python, "-c", f"import {name}"], capture_output=True, check=False).returncode == 0:
            found.append(Subject(name, (str(python), str(HERE / "peers" / f"{name}_peer.py"))))
        else:
            print(f"{name}: not installed for {python}, left out", file=sys.stderr)
    return found


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def table(measured: list[Subject]) -> list[str]:
    """One line per subject; ratios are against the floor on the 1,000-task fan."""
    floor = next((s.per_task_ms(FAN) for s in measured if s.name.startswith("floor")), None)
    head = (
        "",
        "start s",
        "fan ms",
        "x floor",
        "fan wall s",
        "layered ms",
        "10k ms",
        "resume s",
        "MB",
        "repeated",
    )
    rows = [head]
    for s in measured:
        fan = s.per_task_ms(FAN)
        repeated = "-" if s.repeated is None else str(s.repeated)
        wall = s.costs[FAN].wall if FAN in s.costs else None
        memory = s.costs[FAN].memory_mb if FAN in s.costs else None
        resume = None if s.resume is None or s.one is None else s.resume.cpu - s.one.cpu
        rows.append((
            s.name, _number(s.one.cpu if s.one else None), _number(fan),
            _number(fan / floor if fan is not None and floor else None, 1), _number(wall),
            _number(s.per_task_ms(LAYERED)), _number(s.per_task_ms(LARGE)), _number(resume), _number(memory, 0), repeated,
        ))  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = [
        "  ".join(
            c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths, strict=True))
        )
        for r in rows
    ]
    return lines + [f"{s.name}: {s.failed}" for s in measured if s.failed]


def missed(measured: list[Subject], help_s: float | None) -> list[str]:
    """The targets that recon does not meet, in words."""
    recon, floor = measured[0], measured[1]
    fan, base, large = recon.per_task_ms(FAN), floor.per_task_ms(FAN), recon.per_task_ms(LARGE)
    found = [f"recon: {recon.failed}"] if recon.failed else []
    if fan is not None and fan > MOST_PER_TASK_MS:
        found.append(f"{fan:.2f} ms CPU per task; at most {MOST_PER_TASK_MS}")
    if fan is not None and base and fan > MOST_TIMES_FLOOR * base:
        found.append(f"{fan / base:.1f} x the floor; at most {MOST_TIMES_FLOOR:.0f} x")
    if fan is not None and large is not None and large > MOST_GROWTH * fan:
        found.append(f"{large:.2f} ms per task of 10,000, {fan:.2f} of 1,000: not linear")
    if recon.resume and recon.one and recon.resume.cpu - recon.one.cpu > MOST_RESUME_S:
        found.append(
            f"resume took {recon.resume.cpu - recon.one.cpu:.2f} s CPU beyond start-up; at most {MOST_RESUME_S}"
        )
    if help_s is None:
        found.append("recon --help does not work")
    elif help_s > MOST_HELP_S:
        found.append(f"recon --help took {help_s:.2f} s CPU; at most {MOST_HELP_S}")
    for peer in measured[2:]:
        theirs = peer.per_task_ms(FAN)
        if (
            peer.repeated is not None
            and peer.repeated <= 8
            and fan is not None
            and theirs is not None
            and theirs <= fan
        ):
            found.append(f"{peer.name} survives kill -9 too and costs {theirs:.2f} ms per task")
    return found


def main() -> int:
    given = _arguments()
    measured = subjects(given.python)
    for subject in measured:
        own = measured.index(subject) < 2
        measure_subject(subject, repeats=given.repeats, large=own and not given.quick, kill=given.kill)
        print(
            f"measured {subject.name}{': ' + subject.failed if subject.failed else ''}",
            file=sys.stderr,
            flush=True,
        )
    print("\n".join(table(measured)))
    try:
        help_s: float | None = help_cost(given.repeats).cpu
    except Failed as error:
        help_s = None
        print(f"recon --help: {error}")
    print(f"recon --help: {_number(help_s)} s CPU")
    print("ms: CPU per task without start-up. resume: a finished 1,000-task graph, CPU beyond start-up.")
    print(
        "repeated: finished tasks run again after kill -9 half-way (--kill); up to 8 may have been in flight."
    )
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    short = missed(measured, help_s)
    print("\n".join(f"MISSED {line}" for line in short) if short else "every target that was measured is met")
    if not any(peer.repeated is not None for peer in measured[2:]):
        print("not measured: peers that survive kill -9 (--python PATH --kill)")
    if given.quick:
        print("not measured: 10,000 tasks (--quick)")
    return 1 if given.check and short else 0


def _arguments() -> Namespace:
    parser = ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", type=Path, help="an interpreter that has peers installed")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="without the 10,000-task graph")
    parser.add_argument("--kill", action="store_true", help="also kill -9 half-way and resume")
    parser.add_argument("--check", action="store_true", help="exit 1 where a target is missed")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
