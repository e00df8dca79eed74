#include "sim/common/text.h"

#include <errno.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void out_of_memory(size_t bytes) {
  fprintf(stderr, "rondo-sim: out of memory (asked for %zu bytes)\n", bytes);
  exit(EXIT_FAILURE);
}

void *rondo_sim_alloc(size_t bytes) { return rondo_sim_realloc(NULL, bytes); }

void *rondo_sim_calloc(size_t count, size_t bytes) {
  void *p = calloc(count ? count : 1, bytes ? bytes : 1);
  if (!p) {
    out_of_memory(count * bytes);
  }
  return p;
}

void *rondo_sim_realloc(void *old, size_t bytes) {
  void *p = realloc(old, bytes ? bytes : 1);
  if (!p) {
    out_of_memory(bytes);
  }
  return p;
}

void *rondo_sim_alloc_pages(size_t bytes) {
  const size_t page = (size_t)2 << 20, room = (bytes / page + 1) * page;
  void *p = aligned_alloc(page, room);
  if (!p) {
    out_of_memory(bytes);
  }
  (void)madvise(p, room, MADV_HUGEPAGE); // if it fails, pages are small
  return p;
}

void rondo_sim_text_clean(char *text) {
  for (; *text; text++) {
    *text = *text < ' ' || *text > '~' ? '?' : *text;
  }
}

char *rondo_sim_strdup(const char *s) {
  size_t bytes = strlen(s) + 1;
  return memcpy(rondo_sim_alloc(bytes), s, bytes);
}

void rondo_sim_text_fini(struct rondo_sim_text *t) {
  free(t->data);
  *t = (struct rondo_sim_text){0};
}

void rondo_sim_text_clear(struct rondo_sim_text *t) {
  t->size_bytes = 0;
  if (t->data) {
    t->data[0] = 0;
  }
}

static void text_reserve(struct rondo_sim_text *t, size_t more) {
  size_t need = t->size_bytes + more + 1;
  if (need <= t->capacity_bytes) {
    return;
  }
  t->capacity_bytes = need * 2;
  t->data = rondo_sim_realloc(t->data, t->capacity_bytes);
}

void rondo_sim_text_add(struct rondo_sim_text *t, const char *format, ...) {
  va_list ap, again;
  va_start(ap, format);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, format, ap);
  va_end(ap);
  if (n > 0) {
    text_reserve(t, (size_t)n);
    vsnprintf(t->data + t->size_bytes, (size_t)n + 1, format, again);
    t->size_bytes += (size_t)n;
  }
  va_end(again);
}

void rondo_sim_text_add_bytes(struct rondo_sim_text *t, const char *data, size_t bytes) {
  text_reserve(t, bytes);
  if (bytes) // an empty piece may be null
    memcpy(t->data + t->size_bytes, data, bytes);
  t->size_bytes += bytes;
  t->data[t->size_bytes] = 0;
}

void rondo_sim_text_add_xml(struct rondo_sim_text *t, const char *s, const char *after) {
  static const char marks[] = "&<>\"'";
  static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  for (; *s; s++) {
    const char *mark = strchr(marks, *s);
    char c = (unsigned char)*s < ' ' && *s != '\t' && *s != '\n' ? ' ' : *s;
    if (mark) {
      rondo_sim_text_add(t, "%s", entities[mark - marks]);
    } else {
      rondo_sim_text_add_bytes(t, &c, 1);
    }
  }
  rondo_sim_text_add_bytes(t, after, strlen(after));
}

void rondo_sim_text_add_dot(struct rondo_sim_text *t, const char *s) {
  rondo_sim_text_add_bytes(t, "\"", 1);
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') {
      rondo_sim_text_add_bytes(t, "\\", 1);
    }
    if (*s == '\n') {
      rondo_sim_text_add_bytes(t, "\\n", 2);
    } else {
      rondo_sim_text_add_bytes(t, s, 1);
    }
  }
  rondo_sim_text_add_bytes(t, "\"", 1);
}

const char *rondo_sim_text_str(const struct rondo_sim_text *t) { return t->data ? t->data : ""; }

int rondo_sim_text_save(const struct rondo_sim_text *t, const char *path) {
  FILE *f = fopen(path, "w");
  if (!f) {
    return -1;
  }
  struct stat at;
  bool is_file = fstat(fileno(f), &at) == 0 && S_ISREG(at.st_mode);
  size_t written = fwrite(rondo_sim_text_str(t), 1, t->size_bytes, f);
  int saved = written == t->size_bytes ? 0 : errno;
  if (fclose(f) != 0 && !saved) {
    saved = errno;
  }
  if (saved && is_file) {
    (void)unlink(path);
  }
  errno = saved;
  return saved ? -1 : 0;
}

int rondo_sim_text_may_save(const char *path) {
  struct stat at;
  if (stat(path, &at) == 0) {
    errno = EISDIR;
    return S_ISDIR(at.st_mode) ? -1 : access(path, W_OK);
  }
  if (errno != ENOENT) {
    return -1;
  }
  char *copy = rondo_sim_strdup(path);
  int status = access(dirname(copy), W_OK | X_OK);
  free(copy);
  return status;
}

bool rondo_sim_refuse(struct rondo_sim_error *error, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  vsnprintf(error->text, sizeof(error->text), format, ap);
  va_end(ap);
  return false;
}

int rondo_sim_list_find(const char *list, const char *word) {
  size_t length = strlen(word);
  for (int n = 0;; n++) {
    size_t end = strcspn(list, ",");
    if (end == length && strncmp(list, word, length) == 0) {
      return n;
    }
    if (!list[end]) {
      return -1;
    }
    list += end + 1 + strspn(list + end + 1, " ");
  }
}
