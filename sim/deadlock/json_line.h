// Finds the line of a value in a JSON text. The JSON library does not keep it.
#ifndef RONDO_SIM_DEADLOCK_JSON_LINE_H
#define RONDO_SIM_DEADLOCK_JSON_LINE_H

// The line (from 1) of the value at `path` in a valid JSON text, or of the innermost part of the
// path that exists. A path is keys and element numbers with dots between, such as
// "grouping.groups.3.gpus".
int rondo_sim_json_line(const char *text, const char *path);

#endif // RONDO_SIM_DEADLOCK_JSON_LINE_H
