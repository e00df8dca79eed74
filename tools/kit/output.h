// The output of a program. A result that cannot be written is a failure: on a full disk, or in a
// folder that does not exist, which a program finds out before it works for an hour.
//
//   begin -> check -> measure ... -> save
#ifndef RONDO_TOOLS_KIT_OUTPUT_H
#define RONDO_TOOLS_KIT_OUTPUT_H

#include <stdbool.h>

// The first call in main. Gives argp the option --version. If at exit not all of standard output
// could be written, the program prints one line on stderr and ends with status `failure`.
void rondo_kit_output_begin(int failure);

// The version of Rondo, such as "0.1.0".
const char *rondo_kit_version(void);

// Whether a file can be written at `path`; does not touch it. If not, a line on stderr says why.
bool rondo_kit_output_check(const char *path);

// Writes `text` to `path`, replacing a file there, and frees `text`; null: the caller had no
// memory. Returns whether all was written; if not, a line on stderr says why, and no half of a file
// is left.
bool rondo_kit_output_save(const char *path, char *text);

#endif // RONDO_TOOLS_KIT_OUTPUT_H
