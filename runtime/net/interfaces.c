#include "runtime/net/interfaces.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "runtime/net/address.h"

#define PATH_BYTES 512u
#define MAX_MBIT 100000000u // a greater number is no speed

struct list {
  const char *sys, *pattern;
  struct rondo_topology_interface *out;
  uint32_t count;
};

// Reads the first line of a file of sysfs. "" if there is none.
static void line_read(const char *path, char *line, size_t bytes) {
  FILE *file = fopen(path, "re");
  if (!file || !fgets(line, (int)bytes, file))
    line[0] = '\0';
  line[strcspn(line, "\n")] = '\0';
  if (file)
    (void)fclose(file);
}

// Reads a number. Returns `otherwise` if the file does not begin with one.
static uint64_t number_read(const char *path, uint64_t most, uint64_t otherwise) {
  char line[64];
  uint64_t value = 0;
  line_read(path, line, sizeof line);
  return rondo_number_read(line, most, &value) ? value : otherwise;
}

static int16_t node_read(const char *folder) {
  char path[PATH_BYTES];
  (void)snprintf(path, sizeof path, "%.400s/device/numa_node", folder);
  uint64_t node = number_read(path, INT16_MAX, UINT64_MAX);
  return node == UINT64_MAX ? -1 : (int16_t)node;
}

static void list_add(struct list *l, const char *name, const char *folder, uint64_t mbit,
                     bool is_rdma) {
  struct rondo_topology_interface *i = &l->out[l->count];
  if (l->count == RONDO_TOPOLOGY_INTERFACES || strlen(name) >= sizeof i->name)
    return;
  memset(i, 0, sizeof *i);
  memcpy(i->name, name, strlen(name));
  i->mbit = (uint32_t)mbit;
  i->node = node_read(folder);
  i->is_rdma = is_rdma;
  l->count++;
}

// A network interface. Virtual ones report the state "unknown" and the speed -1.
static void net_add(struct list *l, const char *name) {
  char folder[PATH_BYTES];
  char path[PATH_BYTES];
  char state[32];
  (void)snprintf(folder, sizeof folder, "%.100s/class/net/%.200s", l->sys, name);
  (void)snprintf(path, sizeof path, "%.400s/operstate", folder);
  line_read(path, state, sizeof state);
  if (!rondo_address_is_chosen(l->pattern, name) ||
      (strcmp(state, "up") != 0 && strcmp(state, "unknown") != 0))
    return;
  (void)snprintf(path, sizeof path, "%.400s/speed", folder);
  list_add(l, name, folder, number_read(path, MAX_MBIT, 0), false);
}

// The first port of an adapter. Its rate reads "400 Gb/sec (4X NDR)", its state "4: ACTIVE".
static void rdma_add(struct list *l, const char *name) {
  char folder[PATH_BYTES];
  char path[PATH_BYTES];
  char state[32];
  (void)snprintf(folder, sizeof folder, "%.100s/class/infiniband/%.200s", l->sys, name);
  (void)snprintf(path, sizeof path, "%.400s/ports/1/state", folder);
  line_read(path, state, sizeof state);
  if (!strstr(state, "ACTIVE"))
    return;
  (void)snprintf(path, sizeof path, "%.400s/ports/1/rate", folder);
  list_add(l, name, folder, 1000 * number_read(path, MAX_MBIT / 1000, 0), true);
}

static void folder_visit(struct list *l, const char *class,
                         void (*visit)(struct list *l, const char *name)) {
  char path[PATH_BYTES];
  struct dirent **entries = NULL;
  (void)snprintf(path, sizeof path, "%.100s/class/%s", l->sys, class);
  int count = scandir(path, &entries, NULL, alphasort);
  for (int i = 0; i < count; i++) {
    if (entries[i]->d_name[0] != '.')
      visit(l, entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
}

uint32_t rondo_interfaces_list(const char *sys, const char *pattern,
                               struct rondo_topology_interface *out) {
  struct list l = {.sys = sys, .pattern = pattern, .out = out};
  folder_visit(&l, "net", net_add);
  folder_visit(&l, "infiniband", rdma_add);
  return l.count;
}
