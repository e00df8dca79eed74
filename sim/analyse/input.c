#include "sim/analyse/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/common/text.h"

#define FIRST_WINDOW_BYTES ((size_t)256 << 10)
#define LARGEST_WINDOW_BYTES ((size_t)256 << 20)

int rondo_analyse_input_open(struct rondo_analyse_input *in, const char *path) {
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return -1;
  }
  if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    close(fd);
    errno = EISDIR;
    return -1;
  }
  posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  *in = (struct rondo_analyse_input){.fd = fd, .mark = SIZE_MAX};
  in->capacity_bytes = FIRST_WINDOW_BYTES;
  in->data = rondo_sim_alloc(in->capacity_bytes);
  return 0;
}

void rondo_analyse_input_close(struct rondo_analyse_input *in) {
  if (in->fd >= 0) {
    close(in->fd);
  }
  free(in->data);
  *in = (struct rondo_analyse_input){.fd = -1, .mark = SIZE_MAX};
}

// Moves the bytes to keep to the front and makes room after them; false if they are too many.
static bool make_room(struct rondo_analyse_input *in) {
  size_t keep = in->mark < in->begin ? in->mark : in->begin;
  if (keep) {
    memmove(in->data, in->data + keep, in->end - keep);
    in->base_offset += keep;
    in->begin -= keep;
    in->end -= keep;
    in->mark = in->mark == SIZE_MAX ? SIZE_MAX : in->mark - keep;
  }
  if (in->end < in->capacity_bytes) {
    return true;
  }
  if (in->capacity_bytes >= LARGEST_WINDOW_BYTES) {
    in->error = EFBIG;
    return false;
  }
  in->capacity_bytes *= 2;
  in->data = rondo_sim_realloc(in->data, in->capacity_bytes);
  return true;
}

bool rondo_analyse_input_fill(struct rondo_analyse_input *in) {
  if (in->fd < 0 || in->error || !make_room(in)) {
    return false;
  }
  ssize_t got;
  do {
    got = read(in->fd, in->data + in->end, in->capacity_bytes - in->end);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) {
    in->error = got < 0 ? errno : 0;
    return false;
  }
  in->end += (size_t)got;
  if (in->progress_bytes) {
    atomic_fetch_add_explicit(in->progress_bytes, (uint64_t)got, memory_order_relaxed);
  }
  return true;
}

bool rondo_analyse_input_need(struct rondo_analyse_input *in, size_t bytes) {
  while (in->end - in->begin < bytes) {
    if (!rondo_analyse_input_fill(in)) {
      return false;
    }
  }
  return true;
}

bool rondo_analyse_input_line(struct rondo_analyse_input *in, struct rondo_analyse_slice *line) {
  size_t seen = 0;
  for (;;) {
    size_t have = in->end - in->begin;
    char *start = in->data + in->begin;
    char *stop = have > seen ? memchr(start + seen, '\n', have - seen) : NULL;
    if (stop) {
      *line = (struct rondo_analyse_slice){start, (size_t)(stop - start)};
      in->begin += line->size_bytes + 1;
      in->line++;
      return true;
    }
    seen = have;
    if (!rondo_analyse_input_fill(in)) {
      *line = (struct rondo_analyse_slice){in->data + in->begin, have};
      in->begin = in->end;
      return have > 0;
    }
  }
}

bool rondo_analyse_slice_is(struct rondo_analyse_slice s, const char *text) {
  size_t n = strlen(text);
  return s.size_bytes == n && memcmp(s.data, text, n) == 0;
}

int64_t rondo_analyse_slice_integer(struct rondo_analyse_slice s, int64_t otherwise) {
  bool negative = s.size_bytes && s.data[0] == '-';
  uint64_t value = 0, limit = (uint64_t)INT64_MAX + negative;
  size_t i = negative;
  for (; i < s.size_bytes && s.data[i] >= '0' && s.data[i] <= '9'; i++) {
    uint64_t digit = (uint64_t)(s.data[i] - '0');
    value = value > (limit - digit) / 10 ? limit : value * 10 + digit;
  }
  return i == negative ? otherwise : (int64_t)(negative ? 0 - value : value);
}
