// A file read through a window, so that files larger than memory can be read: what is behind is
// forgotten, what is ahead is fetched when asked for, and the position is always known.
//
//   struct rondo_analyse_input in;
//   if (rondo_analyse_input_open(&in, path)) … errno
//   while (in.begin < in.end || rondo_analyse_input_fill(&in)) … in.data[in.begin++] …
//   rondo_analyse_input_close(&in);
//
// One thread.
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
  size_t mark;       // bytes from here on are kept by a fill; SIZE_MAX: none
  size_t capacity_bytes;
  uint64_t base_offset;                 // file offset of data[0]
  uint64_t line;                        // line breaks passed so far; kept by the readers
  int fd;                               // -1: memory only
  int error;                            // errno of a failed read, else 0
  atomic_uint_fast64_t *progress_bytes; // added to as bytes are read; may be null
};

// Opens a file. Returns 0, or -1 with errno set and nothing held.
int rondo_analyse_input_open(struct rondo_analyse_input *in, const char *path);

// Reads from a copy of `bytes` bytes of memory instead of a file.
void rondo_analyse_input_memory(struct rondo_analyse_input *in, const void *data, size_t bytes);

// Gives back the window and closes the file.
void rondo_analyse_input_close(struct rondo_analyse_input *in);

// Moves what is unread (or marked) to the front of the window and reads more behind it. Returns
// false when nothing more comes, because the file ends or cannot be read (`error` is set), or
// because what must be kept is more than 256 MiB.
bool rondo_analyse_input_fill(struct rondo_analyse_input *in);

// Makes at least `bytes` bytes available at data[begin]. Returns false where the file ends first.
bool rondo_analyse_input_need(struct rondo_analyse_input *in, size_t bytes);

// The file offset of the next unread byte.
static inline uint64_t rondo_analyse_input_offset(const struct rondo_analyse_input *in) {
  return in->base_offset + in->begin;
}

// The next line without its line break, which is passed over; false at the end of the file. A
// line without a break at the very end counts.
bool rondo_analyse_input_line(struct rondo_analyse_input *in, struct rondo_analyse_slice *line);

#endif // RONDO_SIM_ANALYSE_INPUT_H
