#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cores.h"
#include "runtime/net/handshake.h"
#include "runtime/net/identity.h"

static uint64_t namespace_inode(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 ? (uint64_t)s.st_ino : 0;
}

// Reads the kernel's boot id, or the host's name if there is none. Returns its length.
static size_t machine_read_id(char *text, size_t bytes) {
  int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd >= 0 ? read(fd, text, bytes) : -1;
  if (fd >= 0)
    close(fd);
  if (n > 0)
    return (size_t)n;
  return gethostname(text, bytes) == 0 ? strnlen(text, bytes) : 0;
}

static void cores_get(uint64_t *words) {
  cpu_set_t set;
  rondo_cores_get(&set);
  for (uint32_t core = 0; core < 64 * RONDO_TOPOLOGY_CORE_WORDS && core < CPU_SETSIZE; core++)
    words[core / 64] |= CPU_ISSET(core, &set) ? UINT64_C(1) << core % 64 : 0;
}

void rondo_identity_get(struct rondo_wire_member *m) {
  char text[256];
  size_t size = machine_read_id(text, 64);
  uint64_t network = namespace_inode("/proc/self/ns/net");
  const char *part = getenv("RONDO_TEST_MACHINE");
  memcpy(text + size, &network, sizeof network);
  size += sizeof network;
  size_t more = part ? strnlen(part, 64) : 0;
  if (more)
    memcpy(text + size, part, more);
  rondo_handshake_digest("rondo machine", text, size + more, (uint8_t *)m->machine,
                         sizeof m->machine);
  m->pid_namespace = namespace_inode("/proc/self/ns/pid");
  m->user_namespace = namespace_inode("/proc/self/ns/user");
  m->pid = (uint32_t)getpid();
  m->uid = (uint32_t)getuid();
  if (gethostname(m->host, sizeof m->host) != 0)
    m->host[0] = '\0';
  m->host[sizeof m->host - 1] = '\0';
  cores_get(m->cores);
}
