"""Writes the dashboards: `python deploy/grafana/generate.py`. With `--check` it only says which are out of date."""

from __future__ import annotations

import sys
from pathlib import Path

from boards import compare_board, join_board, pipeline_board
from grafana_foundation_sdk.cog.encoder import JSONEncoder

FOLDER = Path(__file__).with_name("dashboards")


def dashboards() -> dict[Path, str]:
    """The text of each dashboard's file."""
    encoder = JSONEncoder(sort_keys=True, indent=1, ensure_ascii=False)
    boards = [module.board().build() for module in (pipeline_board, join_board, compare_board)]
    return {FOLDER / f"{board.uid}.json": encoder.encode(board) + "\n" for board in boards}


def main() -> None:
    wanted = dashboards()
    present = {path: path.read_text() for path in FOLDER.glob("*.json")}
    if sys.argv[1:] == ["--check"]:
        stale = sorted(path.name for path in wanted.keys() | present.keys() if wanted.get(path) != present.get(path))
        sys.exit(f"out of date: {', '.join(stale)}. Run deploy/grafana/generate.py." if stale else 0)
    for path in present.keys() - wanted.keys():
        path.unlink()
    for path, text in wanted.items():
        path.write_text(text)
        print(path)


if __name__ == "__main__":
    main()
