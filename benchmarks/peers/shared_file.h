// Memory by which processes of one kernel are timed that a launcher takes to be on different
// machines.
#ifndef RONDO_BENCHMARKS_PEERS_SHARED_FILE_H
#define RONDO_BENCHMARKS_PEERS_SHARED_FILE_H

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// The file that PEER_SHARED names, which is there and empty, mapped; null if there is none. Zeroed.
static inline void *peer_shared_file(size_t bytes) {
  const char *path = getenv("PEER_SHARED");
  int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0 || ftruncate(fd, (off_t)bytes))
    return NULL;
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? NULL : memory;
}

#endif // RONDO_BENCHMARKS_PEERS_SHARED_FILE_H
