// The topology, and what a process says of itself for it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/net/interfaces.h"
#include "runtime/net/wire.h"
#include "tests/support/named.h"

#define RANKS 8u

static uint32_t ranks[4];
static struct rondo_topology_place places[4];

// A process with ranks first, first + 2, ... on a machine.
static struct rondo_wire_member member(uint64_t machine, uint32_t first, uint32_t count) {
  struct rondo_wire_member m = {.machine = {machine, 7},
                                .pid = 100 + first,
                                .host = "node",
                                .key = {1, (uint8_t)first, [31] = 9},
                                .cores = {UINT64_C(3) << first, first == 4},
                                .address_count = 2,
                                .interface_count = 1,
                                .interfaces = {{.name = "eth0", .mbit = 25000, .node = 1}},
                                .rank_count = count,
                                .ranks = ranks,
                                .places = places};
  for (uint32_t i = 0; i < 2; i++)
    m.addresses[i] = (struct rondo_wire_address){
        .family = 4, .port = (uint16_t)(5000 + 10 * first + i), .bytes = {10, 0, 0, (uint8_t)i}};
  for (uint32_t i = 0; i < count; i++) {
    ranks[i] = first + 2 * i;
    places[i] = (struct rondo_topology_place){
        .node = (int16_t)i, .is_gpu = 1, .pci = 0x1000 + i, .links = (uint8_t)i};
  }
  return m;
}

static void it_says_where_each_rank_is(void **state) {
  (void)state;
  struct rondo_topology *r = rondo_topology_create(RANKS, 3);
  struct rondo_wire_member m = member(1, 0, 2);
  assert_true(rondo_topology_add(r, &m));
  m = member(1, 1, 2);
  assert_true(rondo_topology_add(r, &m));
  m = member(2, 4, 2);
  assert_true(rondo_topology_add(r, &m));
  static const uint32_t homes[RANKS] = {
      0, 1, 0, 1, 2, RONDO_TOPOLOGY_NOBODY, 2, RONDO_TOPOLOGY_NOBODY};
  for (uint32_t i = 0; i < RANKS; i++)
    assert_int_equal(r->process_of[i], homes[i]);
  assert_int_equal(r->places[3].node, 1);
  assert_int_equal(r->places[3].pci, 0x1001);
  assert_int_equal(r->places[3].links, 1);
  assert_int_equal(r->places[5].node, -1);
  assert_int_equal(r->processes[1].ranks[1], 3);
  assert_memory_equal(r->processes[2].key, m.key, sizeof m.key);
  assert_true(rondo_topology_is_same_machine(r, 0, 1));
  assert_false(rondo_topology_is_same_machine(r, 1, 2));
  assert_int_equal(rondo_topology_cores(r, 0), 3); // 0 and 1; 1 and 2
  assert_int_equal(rondo_topology_cores(r, 1), 3);
  assert_int_equal(rondo_topology_cores(r, 2), 3); // 4, 5 and 64
  rondo_topology_destroy(r);
}

// Machine, addresses and interfaces are kept once; ports are those of each process.
static void processes_share_their_machine(void **state) {
  (void)state;
  struct rondo_topology *r = rondo_topology_create(RANKS, 4);
  for (uint32_t i = 0; i < 4; i++) {
    struct rondo_wire_member m = member(1 + i % 2, i, 1);
    assert_true(rondo_topology_add(r, &m));
  }
  assert_int_equal(r->machine_count, 2);
  assert_string_equal(r->machines[1].interfaces[0].name, "eth0");
  for (uint32_t i = 0; i < 4; i++) {
    struct rondo_wire_address a;
    rondo_topology_address(r, i, 1, &a);
    assert_int_equal(a.port, 5001 + 10 * i);
    assert_int_equal(a.bytes[3], 1);
    assert_int_equal(r->processes[i].machine, i % 2);
  }
  rondo_topology_destroy(r);
}

static void what_does_not_fit_is_refused(void **state) {
  (void)state;
  struct rondo_topology *r = rondo_topology_create(RANKS, 2);
  struct rondo_wire_member m = member(1, 0, 2);
  assert_true(rondo_topology_add(r, &m));
  m = member(1, 2, 1); // rank 2 is in process 0
  assert_false(rondo_topology_add(r, &m));
  m = member(1, 7, 2); // there is no rank 9
  assert_false(rondo_topology_add(r, &m));
  m = member(1, 1, 0);
  assert_false(rondo_topology_add(r, &m));
  assert_int_equal(r->process_of[7], RONDO_TOPOLOGY_NOBODY);
  m = member(3, 1, 1);
  assert_true(rondo_topology_add(r, &m));
  m = member(3, 3, 1); // a third process
  assert_false(rondo_topology_add(r, &m));
  assert_int_equal(r->machine_count, 2);
  rondo_topology_destroy(r);
}

// Those as fast as the fastest one. Other interfaces do not count.
static void the_fastest_ports_are_counted(void **state) {
  (void)state;
  static const struct {
    struct rondo_topology_interface interfaces[3];
    uint32_t ports;
  } cases[] = {{{{"m", 100, -1, 1, 0}, {"n", 100, -1, 1, 0}, {"a", 200, -1, 0, 0}}, 2},
               {{{"m", 100, -1, 1, 0}, {"n", 200, -1, 1, 0}, {"o", 100, -1, 1, 0}}, 1},
               {{{"m", 200, -1, 1, 0}, {"n", 100, -1, 1, 0}, {"o", 200, -1, 1, 0}}, 2},
               {{{"m", 0, -1, 1, 0}, {"n", 0, -1, 1, 0}, {"a", 200, -1, 0, 0}}, 2},
               {{{"a", 100, -1, 0, 0}, {"b", 100, -1, 0, 0}, {"c", 100, -1, 0, 0}}, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct rondo_topology *t = rondo_topology_create(RANKS, 1);
    struct rondo_wire_member m = member(1, 0, 1);
    m.interface_count = 3;
    memcpy(m.interfaces, cases[i].interfaces, sizeof cases[i].interfaces);
    assert_true(rondo_topology_add(t, &m));
    assert_int_equal(rondo_topology_ports(t, 0), cases[i].ports);
    rondo_topology_destroy(t);
  }
}

// Processes of two users are of one machine, whose cores they share.
static void users_share_the_cores_of_their_machine(void **state) {
  (void)state;
  struct rondo_topology *r = rondo_topology_create(RANKS, 3);
  for (uint32_t i = 0; i < 3; i++) {
    struct rondo_wire_member m = member(1 + i / 2, i, 1);
    m.uid = i;
    m.cores[15] = 1 << i;
    assert_true(rondo_topology_add(r, &m));
  }
  assert_int_equal(r->machine_count, 3);
  assert_true(rondo_topology_is_same_machine(r, 0, 1));
  assert_int_equal(rondo_topology_cores(r, 0), 5);
  assert_int_equal(rondo_topology_cores(r, 1), 5);
  assert_int_equal(rondo_topology_cores(r, 2), 3);
  rondo_topology_destroy(r);
}

static void members_are_read_as_they_were_written(void **state) {
  (void)state;
  uint8_t bytes[2048];
  struct rondo_wire_writer w = {.bytes = bytes, .capacity = sizeof bytes};
  struct rondo_wire_member first = {0}, m = member(1, 1, 3);
  rondo_wire_put_member(&w, &m, NULL);
  const size_t whole = w.size;
  rondo_wire_put_member(&w, &m, &m);
  assert_true(w.size - whole < whole); // the machine is left out
  struct rondo_wire_reader r = {bytes, w.size, 0};
  for (uint32_t i = 0; i < 2; i++) {
    struct rondo_wire_member got;
    rondo_wire_get_member(&r, &got, i ? &first : NULL);
    assert_false(r.bad);
    assert_memory_equal(got.interfaces, m.interfaces, sizeof m.interfaces);
    assert_memory_equal(got.places, places, 3 * sizeof *places);
    assert_memory_equal(got.addresses, m.addresses, sizeof m.addresses);
    assert_memory_equal(got.key, m.key, sizeof m.key);
    assert_memory_equal(got.cores, m.cores, sizeof m.cores);
    if (i)
      rondo_wire_member_fini(&got);
    else
      first = got;
  }
  assert_true(rondo_wire_is_done(&r));
  rondo_wire_member_fini(&first);
  for (size_t size = 0; size < whole; size++) { // cut short anywhere
    struct rondo_wire_reader cut = {bytes, size, 0};
    struct rondo_wire_member got;
    rondo_wire_get_member(&cut, &got, NULL);
    assert_true(cut.bad);
    rondo_wire_member_fini(&got);
  }
}

// -------------------------------------------------------------- interfaces --

static char sys[] = "/tmp/rondo_sys_XXXXXX";

// Writes a file below `sys`, with its folders.
static void sys_write(const char *path, const char *line) {
  char whole[256];
  snprintf(whole, sizeof whole, "%s/%s", sys, path);
  for (char *slash = strchr(whole + sizeof sys, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(whole, 0700);
    *slash = '/';
  }
  FILE *file = fopen(whole, "w");
  assert_non_null(file);
  fprintf(file, "%s\n", line);
  fclose(file);
}

static int sys_make(void **state) {
  (void)state;
  if (!mkdtemp(sys))
    return -1;
  sys_write("class/net/eth1/operstate", "up");
  sys_write("class/net/eth1/speed", "100000");
  sys_write("class/net/eth1/device/numa_node", "1");
  sys_write("class/net/eth0/operstate", "unknown");
  sys_write("class/net/eth0/speed", "-1");
  sys_write("class/net/eth0/device/numa_node", "-1");
  sys_write("class/net/eth2/operstate", "down");
  sys_write("class/net/lo/operstate", "unknown");
  sys_write("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  sys_write("class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
  sys_write("class/infiniband/mlx5_0/device/numa_node", "0");
  sys_write("class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
  return 0;
}

static int sys_remove(void **state) {
  char command[64];
  (void)state;
  snprintf(command, sizeof command, "rm -r %s", sys);
  return system(command); // NOLINT(cert-env33-c)
}

static void interfaces_have_speeds_and_nodes(void **state) {
  (void)state;
  struct rondo_topology_interface got[RONDO_TOPOLOGY_INTERFACES];
  static const struct rondo_topology_interface expected[] = {
      {.name = "eth0", .mbit = 0, .node = -1},
      {.name = "eth1", .mbit = 100000, .node = 1},
      {.name = "mlx5_0", .mbit = 400000, .node = 0, .is_rdma = 1}};
  assert_int_equal(rondo_interfaces_list(sys, "", got), 3);
  assert_memory_equal(got, expected, sizeof expected);
  assert_int_equal(rondo_interfaces_list(sys, "=eth1", got), 2); // and the adapter
  assert_string_equal(got[0].name, "eth1");
  assert_int_equal(rondo_interfaces_list("/nowhere", "", got), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("topology", it_says_where_each_rank_is),
      RONDO_NAMED_TEST("topology", processes_share_their_machine),
      RONDO_NAMED_TEST("topology", users_share_the_cores_of_their_machine),
      RONDO_NAMED_TEST("topology", the_fastest_ports_are_counted),
      RONDO_NAMED_TEST("topology", what_does_not_fit_is_refused),
      RONDO_NAMED_TEST("topology", members_are_read_as_they_were_written),
      RONDO_NAMED_TEST("topology", interfaces_have_speeds_and_nodes),
  };
  return cmocka_run_group_tests_name("topology", tests, sys_make, sys_remove);
}
