#!/usr/bin/env python3
"""Holds the pages to the sources: check.py ROOT WHAT...

  names          every name of the code that a page mentions exists in the tree, as does every file
  links          every link between pages leads to a file
  labels         docs/memory-order.md has every labelled edge of the sources, and no other
  man            every public function has a page that shows it, and no page shows another
  manwarnings    the man pages are formatted without a warning (77: there is no formatter)
  configuration  docs/configuration.md and rondo(7) have every variable, the former every field

Exit status: 0 it is so, 1 not, 77 cannot be told here.
"""
import os
import re
import subprocess
import sys

SOURCES = ("include", "base", "queues", "scheduler", "daemon", "runtime", "sim", "tools",
           "examples", "benchmarks", "tests")
EDGE = re.compile(r"\b([BCDGHJKLPQRS][1-9])\b")


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def files(root, folders, endings):
    for folder in folders:
        for at, inner, names in os.walk(os.path.join(root, folder)):
            inner[:] = [name for name in inner if name != "build"]
            for name in names:
                if name.endswith(endings):
                    yield os.path.relpath(os.path.join(at, name), root)


def pages(root):
    yield "README.md"
    yield from sorted(files(root, ("docs",), (".md",)))


def quoted(text):
    """What stands between backticks, outside of blocks of code."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def check_names(root):
    suffixes = (".c", ".h", ".cpp", ".hpp", ".pml", ".cmake")
    code = "\n".join(read(root, name)
                     for name in files(root, SOURCES + ("adapters", "cmake"), suffixes))
    known = set(re.findall(r"\w+", code))
    for page in pages(root):
        for phrase in quoted(read(root, page)):
            for name in re.findall(r"\b(?:rondo_|RONDO_)\w+", phrase):
                # `RONDO_PHASE_*` speaks of all names that begin so.
                if name.endswith("_"):
                    good = any(other.startswith(name) for other in known)
                else:
                    good = name in known
                if not good:
                    yield f"{page}: no {name} in the sources"
            if re.fullmatch(r"[\w/.-]+/[\w.-]+\.(c|h|md|pml|py|sh|txt)", phrase):
                if not os.path.exists(os.path.join(root, phrase)):
                    yield f"{page}: no file {phrase}"
        for name in functions_of_table(read(root, page)):
            if name not in known:
                yield f"{page}: no function {name} in the sources"


def functions_of_table(text):
    """Names written with parentheses, such as `worker_pass()`."""
    for phrase in quoted(text):
        yield from re.findall(r"\b(\w+)\(\)", phrase)


def check_links(root):
    for page in pages(root):
        text = re.sub(r"^```.*?^```", "", read(root, page), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)|<img[^>]*src=\"([^\"]+)\"", text):
            target = (target[0] or target[1]).split("#")[0]
            if not target or re.match(r"[a-z]+:", target):
                continue
            if not os.path.exists(os.path.join(root, os.path.dirname(page), target)):
                yield f"{page}: {target} leads nowhere"


def check_labels(root):
    in_code = set()
    for name in files(root, ("base", "queues", "scheduler", "daemon", "runtime"), (".c", ".h")):
        for comment in re.findall(r"//(.*)", read(root, name)):
            in_code.update(EDGE.findall(comment))
    in_page = set(re.findall(r"^\| \**([BCDGHJKLPQRS][1-9])\b", read(root, "docs/memory-order.md"),
                             flags=re.M))
    if not in_code:
        yield "no label found in the sources"
    for label in sorted(in_code - in_page):
        yield f"docs/memory-order.md: {label} is missing"
    for label in sorted(in_page - in_code):
        yield f"docs/memory-order.md: {label} is no label of the sources"


def public_functions(root):
    for name in files(root, ("include/rondo",), (".h",)):
        text = re.sub(r"//.*", "", read(root, name))
        yield from re.findall(r"^[a-z][\w \*]*?\b(rondo_\w+)\(", text, flags=re.M)


def check_man(root):
    folder = os.path.join(root, "docs", "man")
    functions = set(public_functions(root))
    if len(functions) < 30:
        yield f"only {len(functions)} public functions found"
    for function in sorted(functions):
        path = os.path.join(folder, function + ".3")
        if not os.path.exists(path):
            yield f"docs/man: no page for {function}"
            continue
        text = read(path)
        elsewhere = re.fullmatch(r"\.so man3/(rondo_\w+\.3)\n", text)
        if elsewhere:
            text = read(folder, elsewhere[1])
        for line in (f".Fo {function}\n", f".Nm {function}"):
            if line not in text:
                yield f"docs/man/{function}.3: no line \"{line.strip()}\""
    for name in sorted(os.listdir(folder)):
        text = read(folder, name)
        if name.endswith(".3") and name[:-2] not in functions:
            yield f"docs/man/{name}: no such function"
        for other, section in re.findall(r"^\.Xr (\S+) (\d)", text, flags=re.M):
            ours = other.startswith("rondo")
            if ours and not os.path.exists(os.path.join(folder, f"{other}.{section}")):
                yield f"docs/man/{name}: refers to {other}({section})"


def formatter():
    for command in (["mandoc", "-T", "lint", "-W", "warning"],
                    ["groff", "-mandoc", "-ww", "-Tutf8", "-K", "utf8", "-z"],
                    ["man", "--warnings", "-E", "UTF-8", "-Tutf8", "-Z", "-l"]):
        try:
            subprocess.run([command[0], "--version"], capture_output=True, check=False)
        except FileNotFoundError:
            continue
        return command
    return None


def check_manwarnings(root):
    command = formatter()
    if not command:
        print("skipped: neither mandoc nor groff nor man is here")
        sys.exit(77)
    folder = os.path.join(root, "docs", "man")
    environment = dict(os.environ, LC_ALL="C.UTF-8")
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if read(path).startswith(".so "):
            continue
        run = subprocess.run(command + [path], capture_output=True, text=True, env=environment,
                             check=False)
        said = run.stderr + (run.stdout if command[0] == "mandoc" else "")
        if run.returncode or said.strip():
            yield f"docs/man/{name}: {command[0]} says:\n{said.strip()}"


def check_configuration(root):
    page = read(root, "docs/configuration.md")
    overview = read(root, "docs/man/rondo.7")
    config = read(root, "runtime/api/api_config.c")
    block = re.search(r"known_variables\[\] = \{(.*?)\};", config, flags=re.S)
    variables = re.findall(r"\"(RONDO_\w+)\"", block[1]) if block else []
    if not variables:
        yield "runtime/api/api_config.c: no variables found"
    for variable in variables:
        if f"`{variable}`" not in page:
            yield f"docs/configuration.md: {variable} is missing"
        if f".It Ev {variable}\n" not in overview:
            yield f"docs/man/rondo.7: {variable} is missing"
    header = read(root, "include/rondo/rondo.h")
    for name in ("rondo_config", "rondo_tuning"):
        body = re.search(rf"^struct {name} \{{(.*?)^\}};", header, flags=re.S | re.M)
        fields = re.findall(r"\b(\w+);", re.sub(r"//.*", "", body[1])) if body else []
        if not fields:
            yield f"struct {name}: no fields found"
        for field in fields:
            if f"| `{field}`" not in page:
                yield f"docs/configuration.md: field {field} of struct {name} is missing"


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    failures = 0
    for what in sys.argv[2:]:
        for failure in globals()["check_" + what](sys.argv[1]):
            print(failure)
            failures += 1
    sys.exit(1 if failures else 0)


main()
