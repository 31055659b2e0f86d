"""What a workload finds is printed, and kept where `--out` says."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path


def main(said: str | None, lines: Callable[[], Iterable[str]]) -> None:
    """`said`: what the workload says of itself."""
    parser = argparse.ArgumentParser(description=said, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    found = []
    for line in lines():
        print(line, flush=True)
        found.append(line)
    if out:
        out.write_text("\n".join(found) + "\n")
