#include "tests/support/ptx/ptx_mutate.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_FILES 64u
// Files with functions whose call sites are of interest, not their own lines.
static const char *const callees[] = {"base/atomic_cuda.h", "daemon/cuda/kernel.cu"};

// A source file, read when it is first needed.
struct source {
  char path[512];
  char *text;
};

struct mutator {
  const struct ptx_mutation *mutation;
  struct source files[MOST_FILES]; // by the number that the text gives them
  bool is_chosen;                  // the current source line has the label
  uint32_t found, changed;
  FILE *out;
};

// The text of a file; empty if it cannot be read.
static char *file_read(const char *path) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *in = fopen(path, "r");
  FILE *out = open_memstream(&text, &bytes);
  if (!out)
    abort();
  for (int c; in && (c = fgetc(in)) != EOF;)
    fputc(c, out);
  if (in)
    fclose(in);
  fclose(out);
  return text;
}

// True if the line ends with a comment that has the word.
static bool line_has_label(const char *line, size_t length, const char *label) {
  const char *comment = memmem(line, length, "//", 2);
  const size_t bytes = strlen(label);
  const char *end = line + length;
  for (const char *at = comment; at; at = at + 1 < end ? at + 1 : NULL) {
    at = memmem(at, (size_t)(end - at), label, bytes);
    if (!at)
      return false;
    if (!isalnum((unsigned char)at[-1]) &&
        (at + bytes == end || !isalnum((unsigned char)at[bytes])))
      return true;
  }
  return false;
}

static bool mutator_line_is_chosen(struct mutator *m, unsigned file, unsigned number) {
  if (!m->mutation->label)
    return true;
  if (file >= MOST_FILES || !*m->files[file].path)
    return false;
  struct source *s = &m->files[file];
  if (!s->text)
    s->text = file_read(s->path);
  const char *line = s->text;
  for (unsigned i = 1; i < number && line; i++) {
    line = strchr(line, '\n');
    line += line != NULL;
  }
  return line && line_has_label(line, strcspn(line, "\n"), m->mutation->label);
}

// What follows the name of a directive, or null: the line is not one.
static const char *directive_find(const char *line, const char *name) {
  line += strspn(line, " \t");
  return strncmp(line, name, strlen(name)) == 0 ? line + strlen(name) : NULL;
}

// Reads the next number and goes past it.
static unsigned number_next(const char **at) {
  char *end;
  unsigned long number = strtoul(*at, &end, 10);
  *at = end;
  return (unsigned)number;
}

// .file NUMBER "PATH"
static void mutator_note_file(struct mutator *m, const char *line) {
  const char *at = directive_find(line, ".file");
  if (!at)
    return;
  unsigned number = number_next(&at);
  at += strspn(at, " \t\"");
  if (number < MOST_FILES)
    snprintf(m->files[number].path, sizeof m->files[number].path, "%.*s", (int)strcspn(at, "\"\n"),
             at);
}

static bool path_is_of_callees(const char *path) {
  for (size_t i = 0; i < sizeof callees / sizeof *callees; i++) {
    const char *end = strstr(path, callees[i]);
    if (end && strcmp(end, callees[i]) == 0)
      return true;
  }
  return false;
}

// .loc FILE LINE COLUMN[, function_name LABEL, inlined_at FILE LINE COLUMN]
static void mutator_note_place(struct mutator *m, const char *line) {
  const char *at = directive_find(line, ".loc");
  if (!at)
    return;
  unsigned file = number_next(&at);
  unsigned number = number_next(&at);
  const char *caller = memmem(at, strcspn(at, "\n"), "inlined_at", strlen("inlined_at"));
  if (caller && file < MOST_FILES && path_is_of_callees(m->files[file].path)) {
    caller += strlen("inlined_at");
    file = number_next(&caller);
    number = number_next(&caller);
  }
  m->is_chosen = mutator_line_is_chosen(m, file, number);
}

// The instruction after a guard such as "@%p1".
static const char *instruction_begin(const char *line) {
  line += strspn(line, " \t");
  if (*line == '@') {
    line += strcspn(line, " \t");
    line += strspn(line, " \t");
  }
  return line;
}

static void mutator_put_line(struct mutator *m, const char *line, size_t length) {
  const struct ptx_mutation *mutation = m->mutation;
  const char *begin = instruction_begin(line);
  const char *from = memmem(line, length, mutation->from, strlen(mutation->from));
  bool matches = m->is_chosen && from && from >= begin &&
                 strncmp(begin, mutation->opcode, strlen(mutation->opcode)) == 0;
  if (matches && (mutation->which == 0 || ++m->found == mutation->which)) {
    m->changed++;
    if (!mutation->to)
      return;
    size_t before = (size_t)(from - line);
    size_t after = before + strlen(mutation->from);
    fprintf(m->out, "%.*s%s%.*s", (int)before, line, mutation->to, (int)(length - after),
            line + after);
    return;
  }
  fwrite(line, 1, length, m->out);
}

char *ptx_mutate(const char *text, const struct ptx_mutation *mutation, uint32_t *changed) {
  struct mutator m = {.mutation = mutation, .is_chosen = !mutation->label};
  char *result = NULL;
  size_t bytes = 0;
  m.out = open_memstream(&result, &bytes);
  if (!m.out)
    abort();
  // The names of the files are at the end.
  for (const char *line = strstr(text, ".file"); line; line = strstr(line + 1, ".file"))
    mutator_note_file(&m, line);
  for (const char *line = text; *line;) {
    size_t length = strcspn(line, "\n");
    length += line[length] == '\n';
    mutator_note_place(&m, line);
    mutator_put_line(&m, line, length);
    line += length;
  }
  if (fclose(m.out))
    abort();
  for (uint32_t i = 0; i < MOST_FILES; i++)
    free(m.files[i].text);
  *changed = m.changed;
  return result;
}
