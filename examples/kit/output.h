// What a program writes. Standard output may be a full disk, and a result that was not written is a
// failure; so is one that would be lost after an hour because its folder does not exist.
//
//   begin -> check -> measure ... -> save
#ifndef RONDO_EXAMPLES_KIT_OUTPUT_H
#define RONDO_EXAMPLES_KIT_OUTPUT_H

#include <stdbool.h>

// First in main. Gives argp the option --version, and has the program end with `failure`, and one line on
// stderr, if at exit not all of its standard output could be written.
void rondo_kit_output_begin(int failure);

// Whether a file could be written at `path`, without touching it. If not, a line on stderr says why.
bool rondo_kit_output_check(const char *path);

// Writes `text` to `path`, replacing what was there, and frees it; null: there was no memory for it. Returns
// whether that went well; if not, a line on stderr says why, and no half of it is left.
bool rondo_kit_output_save(const char *path, char *text);

#endif // RONDO_EXAMPLES_KIT_OUTPUT_H
