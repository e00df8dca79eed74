#!/usr/bin/env python3
"""Runs the commands of a page and compares the outputs with those that the page shows.

    tutorial.py PAGE FOLDER_OF_PROGRAMS

The page has blocks of commands (```sh), which run in the root of the tree, and blocks of output
(```text). The lines of such a block are in the output of the commands before it, in this order;
`...` skips lines. The first block of commands builds the programs and is left out.
"""

import os
import pathlib
import re
import subprocess
import sys


def check(shown: str, output: str) -> None:
    lines = iter(line.rstrip() for line in output.splitlines())
    for want in shown.splitlines():
        if want != "..." and not any(re.sub(r"\s+", " ", line) == re.sub(r"\s+", " ", want.rstrip())
                                     for line in lines):
            sys.exit(f"not in the output, or not in this order: {want}\n{output[:4000]}")


def main() -> None:
    page, programs = pathlib.Path(sys.argv[1]), sys.argv[2]
    text = page.read_text()
    blocks = re.findall(r"^```(sh|text)\n(.*?)^```", text, re.M | re.S)
    assert blocks[0][0] == "sh", "the first block builds"
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    commands, output, compared = "", "", 0
    for kind, body in blocks[1:]:
        if kind == "text":
            check(body, output)
            compared += 1
            continue
        # What earlier blocks have set, then this block, whose output is compared.
        shell = f"{commands}\necho '--- output'\n{body}"
        done = subprocess.run(["bash", "-c", shell], cwd=page.parent.parent, env=environment,
                              capture_output=True, text=True, timeout=300)
        output = done.stdout.split("--- output\n", 1)[1]
        if done.returncode not in (0, 10):
            sys.exit(f"exit status {done.returncode} of:\n{body}\n{done.stderr}")
        commands += "".join(line + "\n" for line in body.splitlines() if re.match(r"\w+=", line))
    assert compared >= 5, "the page shows outputs"
    print(f"{compared} outputs are as the page shows them")


if __name__ == "__main__":
    main()
