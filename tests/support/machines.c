#include "tests/support/machines.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND_BYTES 256u

static pid_t holders[RONDO_MACHINES_MAX];
static uint32_t holder_count;
uint32_t rondo_machines_networks = 1;

// Runs a command of the shell; 1 if it succeeded.
__attribute__((format(printf, 1, 2))) static int run(const char *format, ...) {
  char command[COMMAND_BYTES];
  va_list args;
  va_start(args, format);
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): clang 14 does not see the va_start
  (void)vsnprintf(command, sizeof command, format, args);
  va_end(args);
  // NOLINTNEXTLINE(cert-env33-c,bugprone-command-processor): the command is ours
  return system(command) == 0;
}

// Without root, namespaces are allowed inside a user namespace.
static int leave_network(void) {
  return unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
}

// A process that does nothing but to be in a namespace, and says when it is.
static void hold(int ready) {
  char said = 0;
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (unshare(CLONE_NEWNET) || write(ready, &said, 1) != 1)
    _exit(1);
  for (;;)
    pause();
}

static int start_holder(uint32_t machine) {
  int ready[2];
  char said;
  if (pipe(ready))
    return 0;
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0)
    hold(ready[1]);
  close(ready[1]);
  int works = pid > 0 && read(ready[0], &said, 1) == 1;
  close(ready[0]);
  if (pid > 0) {
    holders[machine] = pid;
    holder_count = machine + 1;
  }
  return works;
}

// RONDO_TEST_ADDRESS_FAMILY: 6 for machines without IPv4.
static int give_address(uint32_t machine, uint32_t network) {
  const char *family = getenv("RONDO_TEST_ADDRESS_FAMILY");
  if (family && strcmp(family, "6") == 0)
    return run("ip addr add fd77:%u::%u/64 dev eth%u nodad", network, machine + 1, network);
  return run("ip addr add 10.77.%u.%u/24 dev eth%u", network, machine + 1, network);
}

static int configure(uint32_t machine) {
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    rondo_machines_enter(machine);
    int works = run("ip link set lo up");
    for (uint32_t n = 0; n < rondo_machines_networks && works; n++)
      works = give_address(machine, n) && run("ip link set eth%u up", n);
    _exit(!works);
  }
  int end = 1;
  return pid > 0 && waitpid(pid, &end, 0) == pid && end == 0;
}

static int network_make(uint32_t network) {
  return run("ip link add network%u type bridge && ip link set network%u up", network, network);
}

// Connects a machine with a network, to which the link rondo<machine> or other<machine> leads.
static int network_connect(uint32_t machine, uint32_t network) {
  const char *link = network ? "other" : "rondo";
  return run("ip link add %s%u type veth peer name eth%u netns %d", link, machine, network,
             (int)holders[machine]) &&
         run("ip link set %s%u master network%u up", link, machine, network);
}

int rondo_machines_open(uint32_t count) {
  int works = run("ip -V >/dev/null 2>&1") && leave_network() && run("ip link set lo up");
  for (uint32_t n = 0; n < rondo_machines_networks && works; n++)
    works = network_make(n);
  for (uint32_t i = 0; i < count && works; i++) {
    works = start_holder(i);
    for (uint32_t n = 0; n < rondo_machines_networks && works; n++)
      works = network_connect(i, n);
    works = works && configure(i);
  }
  if (works)
    return 1;
  rondo_machines_close();
  printf("skipped: namespaces, a bridge or ip (Debian: iproute2) are not to be had here\n");
  return 0;
}

// Shows the process the interfaces of its own machine in /sys, where UCX looks for them.
static int show_interfaces(void) {
  return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0 &&
         mount("sysfs", "/sys", "sysfs", 0, NULL) == 0;
}

void rondo_machines_enter(uint32_t machine) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/ns/net", (int)holders[machine]);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET) || (rondo_machines_networks == 2 && !show_interfaces())) {
    fprintf(stderr, "a process cannot enter machine %u\n", machine);
    _exit(1);
  }
  close(fd);
}

void rondo_machines_link(uint32_t machine, int up) {
  (void)run("ip link set rondo%u %s", machine, up ? "up" : "down");
}

void rondo_machines_slow(uint32_t machine, int slow) {
  if (slow)
    (void)run("tc qdisc add dev rondo%u root tbf rate 8mbit burst 16kb latency 300ms", machine);
  else
    (void)run("tc qdisc del dev rondo%u root", machine);
}

// A line of /proc/net/dev: the name, eight counters of what was received, eight of what was sent.
uint64_t rondo_machines_sent(const char *interface) {
  char line[COMMAND_BYTES];
  FILE *file = fopen("/proc/net/dev", "re");
  uint64_t sent = UINT64_MAX;
  while (file && fgets(line, sizeof line, file)) {
    char *rest = line + strspn(line, " ");
    size_t size = strcspn(rest, ":");
    if (rest[size] != ':' || size != strlen(interface) || strncmp(rest, interface, size) != 0)
      continue;
    rest += size + 1;
    for (uint32_t i = 0; i <= 8; i++)
      sent = strtoull(rest, &rest, 10);
  }
  if (file)
    (void)fclose(file);
  return sent;
}

void rondo_machines_close(void) {
  for (uint32_t i = 0; i < holder_count; i++) {
    kill(holders[i], SIGKILL);
    (void)waitpid(holders[i], NULL, 0);
  }
  holder_count = 0;
}
