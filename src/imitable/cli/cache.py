"""`imitable cache`: what is kept for the next time."""

from typing import Annotated

from tyro.conf import arg

from imitable.report.terminal import print_line as print, print_table
from imitable.store.cache import age, default_cache


def cache(*, clear: Annotated[bool, arg(help="delete all entries")] = False) -> None:
    """List what is kept for the next time, with its size; or delete it."""
    stored = default_cache()
    entries = stored.clear() if clear else stored.entries()
    parts = sorted({entry.part for entry in entries})
    rows = []
    for part in parts:
        mine = [entry for entry in entries if entry.part == part]
        rows.append((part, str(len(mine)), f"{sum(entry.bytes for entry in mine) / 1e6:.1f} MB", age(mine[0])))
    print_table(("part", "entries", "size", "longest unused"), rows)
    total = sum(entry.bytes for entry in entries) / 1e9
    cap = f"least recently used entries are deleted above {stored.max_bytes / 1e9:g} GB"
    print(f"{stored.folder}: {'deleted' if clear else 'holds'} {total:.2f} GB; {cap}")
