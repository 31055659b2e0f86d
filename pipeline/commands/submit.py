"""`millrace submit`: the job on a Spark cluster."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperCommand

from pipeline.commands.options import before
from pipeline.config import resources
from pipeline.errors import BadSetting


class Verbatim(TyperCommand):
    """A command that hands its words on to another program, two dashes included."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args[:1] == ["--help"]:
            return list(super().parse_args(ctx, args))
        ctx.args = list(args)
        return list(args)


HOW = {"cls": Verbatim, "options_metavar": "[OPTIONS OF SPARK-SUBMIT] [-- OPTIONS OF RUN]"}  # it is listed


def command(context: typer.Context) -> None:
    """Submit the job to a Spark cluster that knows nothing of Millrace; code, packages and jars travel with it.

    millrace submit --master spark://host:7077 --executor-memory 2g -- --config my.toml
    """
    words = context.args
    at = words.index("--") if "--" in words else len(words)
    ours = ["--config", str(before.config)] if before.config else []
    ours += [word for assignment in before.assignments for word in ("--set", assignment)]
    os.environ["MILLRACE_PYTHON"] = sys.executable
    script = resources.deployed("spark/submit.sh")
    if not script.is_file():
        raise BadSetting(
            f"there is no {script}: an image has everything in it already. Submit from a clone or a wheel, or let a "
            "Kubernetes operator start the image."
        )
    os.execvp("bash", ["bash", str(script), *words[:at], "--", *ours, *words[at + 1 :]])
