"""Writing the files of a change: whole or not at all, and only over what was read before."""

from __future__ import annotations

from typing import Final

from recon.agent.model.base import sha256_hex
from recon.agent.model.changes import FileChange
from recon.agent.runner.ports import Executor

_TIMEOUT_S: Final = 60.0
_OTHER: Final = 73  # the file is not what the change was rendered for
_CUT: Final = 74  # what arrived is not what was sent
# A constant; what it works on are positional arguments and the standard input, never part of the text. The new content is
# complete on the same file system before it takes the name; a file that must not exist is linked, which never replaces.
_WRITE: Final = """
path=$1 before=$2 after=$3
sum() { sha256sum | cut -d ' ' -f 1; }
now() { if [ -L "$path" ]; then echo other; elif [ -f "$path" ]; then sum < "$path"; elif [ -e "$path" ]; then echo other; fi; }
held=$(now)
[ "$held" = "$after" ] && exit 0
[ "$held" = "$before" ] || { echo "$held"; exit 73; }
new=$(mktemp -- "$(dirname -- "$path")/.recon-XXXXXXXX") || exit 1
trap 'rm -f -- "$new"' EXIT
cat > "$new" || exit 1
[ "$(sum < "$new")" = "$after" ] || exit 74
if [ -n "$before" ]; then
  chmod --reference="$path" -- "$new" || exit 1
  chown --reference="$path" -- "$new" || exit 1
else
  chmod 644 -- "$new" || exit 1
fi
sync -- "$new" || exit 1
held=$(now)
[ "$held" = "$before" ] || { echo "$held"; exit 73; }
if [ -n "$before" ]; then mv -fT -- "$new" "$path"; else ln -T -- "$new" "$path"; fi
"""


async def write_file(file: FileChange, executor: Executor) -> str:
    """Writes one file; "" or why it was not. Nothing is written through a link: it counts as another file."""
    after = sha256_hex(file.text_after)
    ended = await executor.execute(
        ("sh", "-c", _WRITE, "recon", file.path, file.sha_before, after), timeout_s=_TIMEOUT_S,
        stdin=file.text_after.encode(),
    )  # fmt: skip
    if ended.exit_code == 0:
        return ""
    if ended.exit_code == _OTHER:
        return _another(file, ended.stdout.strip())
    if ended.exit_code == _CUT:
        return f"{file.path}: what arrived on the host is not what was sent; nothing was written"
    if ended.timed_out:
        return f"{file.path}: not written within {_TIMEOUT_S:.0f} s"
    said = (ended.stderr or ended.stdout).strip().splitlines()[-1:] or [f"exit code {ended.exit_code}"]
    return f"{file.path} was not written: {said[0]}"


def _another(file: FileChange, held: str) -> str:
    if held == "other":
        return f"{file.path} is not a plain file; nothing was written"
    if not held:
        return f"{file.path} is gone, expected was sha256 {file.sha_before[:12]}; nothing was written"
    if not file.sha_before:
        return f"{file.path} is there already (sha256 {held[:12]}), expected was no file; nothing was written"
    return (
        f"{file.path} is another file than the one that was shown: sha256 {held[:12]}, expected was"
        f" {file.sha_before[:12]}; nothing was written"
    )
