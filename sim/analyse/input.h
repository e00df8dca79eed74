// A file that is read through a window, so that it may be larger than memory. Bytes before the
// position are dropped, bytes after it are fetched on request.
//
//   struct rondo_analyse_input in;
//   if (rondo_analyse_input_open(&in, path)) … errno
//   while (in.begin < in.end || rondo_analyse_input_fill(&in)) … in.data[in.begin++] …
//   rondo_analyse_input_close(&in);
//
// One input belongs to one thread.
#ifndef RONDO_SIM_ANALYSE_INPUT_H
#define RONDO_SIM_ANALYSE_INPUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A slice of the window; valid until the next fill.
struct rondo_analyse_slice {
  const char *data;
  size_t size_bytes;
};

struct rondo_analyse_input {
  char *data;
  size_t begin, end; // unread bytes are data[begin .. end)
  size_t mark;       // a fill keeps the bytes from here on; SIZE_MAX: none
  size_t capacity_bytes;
  uint64_t base_offset;                 // file offset of data[0]
  uint64_t line;                        // line breaks so far; the readers count them
  int fd;                               // -1: the window holds all there is
  int error;                            // errno of a failed read, else 0
  atomic_uint_fast64_t *progress_bytes; // grows by the bytes read; may be null
};

// Opens a file. Returns 0, or -1 with errno set and nothing held.
int rondo_analyse_input_open(struct rondo_analyse_input *in, const char *path);

// Frees the window and closes the file.
void rondo_analyse_input_close(struct rondo_analyse_input *in);

// Moves the unread (or marked) bytes to the front of the window and reads more after them. Returns
// false when no more can come: the file ends, it cannot be read (`error` is set), or the bytes to
// keep exceed 256 MiB.
bool rondo_analyse_input_fill(struct rondo_analyse_input *in);

// Makes at least `bytes` bytes available at data[begin]. Returns false if the file ends first.
bool rondo_analyse_input_need(struct rondo_analyse_input *in, size_t bytes);

// The file offset of the next unread byte.
static inline uint64_t rondo_analyse_input_offset(const struct rondo_analyse_input *in) {
  return in->base_offset + in->begin;
}

// The next line without its line break, which is skipped; false at the end of the file. The last
// line needs no line break.
bool rondo_analyse_input_line(struct rondo_analyse_input *in, struct rondo_analyse_slice *line);

// True if the slice is this text.
bool rondo_analyse_slice_is(struct rondo_analyse_slice s, const char *text);

// The digits at the start of a slice as a number, clamped; `otherwise` if there are none.
int64_t rondo_analyse_slice_integer(struct rondo_analyse_slice s, int64_t otherwise);

#endif // RONDO_SIM_ANALYSE_INPUT_H
