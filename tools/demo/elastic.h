// The third program of the demo: a job of processes whose members change while they work.
//
// All members run the same all-reduces, each in its own random order, with RONDO_ON_LOSS_RETRY.
// After a third of the iterations one member is killed in the middle of its calls; the others go
// on. After two thirds they admit a new process while their runs are outstanding. Each member
// checks every element of every result against the members that rondo_run_members names.
#ifndef RONDO_TOOLS_DEMO_ELASTIC_H
#define RONDO_TOOLS_DEMO_ELASTIC_H

#include <jansson.h>

#include "tools/demo/options.h"

#define DEMO_ELASTIC_RANKS 4u // default
#define DEMO_ELASTIC_LEAST 3u // so that the members that are left are a majority
// So that between the death and the vote there is a whole iteration without the killed member.
#define DEMO_ELASTIC_ITERATIONS 6u

enum demo_elastic_end { DEMO_ELASTIC_GOOD, DEMO_ELASTIC_BAD, DEMO_ELASTIC_INTERRUPTED };

// Runs the program and prints what happens. Call it before any call of Rondo: it forks. `results`:
// an array that gets an object. Returns enum demo_elastic_end.
int demo_elastic_run(const struct demo_options *options, json_t *results);

#endif // RONDO_TOOLS_DEMO_ELASTIC_H
