#!/usr/bin/env bash
# What scripts/count-lines counts in a planted tree: scripts_count_lines.sh SCRIPTS_DIR
set -euo pipefail

readonly scripts=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  printf 'FAILED: %s\n' "$*"
  exit 1
}

# Expects a row of the table: FOLDER FILES LINES CODE
expect_row() {
  grep -qE "^$1 +$2 +$3 +$4\$" "$folder/table" ||
    fail "no row \"$*\" in: $(cat "$folder/table")"
}

mkdir -p "$folder"/tree/{base,sim/deep,adapters/tests,tests,scripts,examples/build,tools/.hidden}
cd "$folder/tree"

# 12 lines, 6 of them code.
cat >base/a.c <<'C'
/* A comment
   int not_code;

   ends here. */ int one; // code after a comment

// A comment that goes on \
   int not_code;
const char *two = "/* no comment, // neither";
const char quote = '"', /*
  */ slash = '\'';
char three[] = "a\"/*";
int five = 5; /* ends at once */
C

# 7 lines, 5 of them code: a raw string, a number with a quote.
cat >sim/deep/b.cpp <<'C'
auto raw = R"x(
// no comment
)")x";
long million = 1'000'000; // one
long other = '"'; /* '
*/
/**/
C

# 18 lines, 7 of them code. The docstring of a class and a blank line in a string.
cat >sim/tool <<'PYTHON'
#!/usr/bin/env python3
"""A docstring
# of two lines."""

import sys  # code


class Empty:
    'One line.'

    value = "# no comment"
    text = """no docstring

# no comment"""


def said(): "A docstring beside code."; return 1
print(said(), "ünï", 'x')  # code
PYTHON

# Nothing of these counts.
for path in adapters/tests/a.c tests/a.c scripts/a.py examples/build/a.c tools/.hidden/a.c; do
  echo 'int not_counted;' >"$path"
done
echo 'text' >sim/notes.md
printf '#!/bin/sh\necho\n' >sim/shell

"$scripts/count-lines" "$folder/tree" >"$folder/table"
expect_row base 1 12 6
expect_row sim 2 25 12
expect_row sum 3 37 18
[[ $(wc -l <"$folder/table") -eq 4 ]] || fail "more rows: $(cat "$folder/table")"

echo 'def broken(:' >sim/broken.py
! "$scripts/count-lines" "$folder/tree" >/dev/null 2>"$folder/said" ||
  fail "a broken source was counted"
grep -q 'sim/broken.py' "$folder/said" || fail "the broken source is not named"
! "$scripts/count-lines" "$folder/tree/tests" >/dev/null 2>&1 || fail "an empty tree was counted"
