// What transports report about a machine, and the addresses that UCX is not given.
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rondo/rondo.h>

#include "runtime/job/processes.h"
#include "runtime/transport/transports.h"
#include "runtime/transport/proxy_state.h"
#include "runtime/transport/ucx/ucx.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

static char text[4096];

// Leaves in `text` what the transport says. Returns the status.
static int describe(int transport) {
  FILE *out = fmemopen(text, sizeof text, "w");
  assert_non_null(out);
  memset(text, 0, sizeof text);
  int status = rondo_transport_describe(transport, out);
  (void)fclose(out);
  return status;
}

static void shared_memory_says_how_much_there_is(void **state) {
  (void)state;
  static const char before[] = "\nhuge pages of 2 MiB: ", between[] = " of the system's ";
  assert_int_equal(describe(RONDO_TRANSPORT_SHARED_MEMORY), RONDO_SUCCESS);
  assert_non_null(strstr(text, "of memory of a process, passed to others as a descriptor\n"));
  const char *line = strstr(text, before);
  assert_non_null(line);
  char *end = NULL;
  unsigned long free_pages = strtoul(line + strlen(before), &end, 10);
  assert_int_equal(strncmp(end, between, strlen(between)), 0);
  assert_true(free_pages <= strtoul(end + strlen(between), NULL, 10));
}

static void ucx_says_over_what_it_may_send(void **state) {
  (void)state;
  assert_int_equal(setenv("UCX_NET_DEVICES", "lo", 1), 0);
  assert_int_equal(describe(RONDO_TRANSPORT_UCX), RONDO_SUCCESS);
  unsetenv("UCX_NET_DEVICES");
  assert_int_equal(strncmp(text, "UCX 1.", 6), 0);
  assert_non_null(strstr(text, "\ntcp/lo\n"));
  assert_null(strstr(text, "self/"));
}

static int describe_badly(FILE *out, char *why, size_t why_bytes) {
  fprintf(out, "a cable\n");
  (void)snprintf(why, why_bytes, "nobody holds its end");
  return RONDO_ERR_SYSTEM;
}

static void what_cannot_be_used_says_why_last(void **state) {
  static const struct rondo_carrier_calls broken = {.name = "cable", .describe = describe_badly};
  static const struct rondo_carrier_calls silent = {.name = "silent"};
  const struct rondo_carrier_calls *before = rondo_transports_carrier;
  (void)state;
  rondo_transports_carrier = &broken;
  int status = describe(RONDO_TRANSPORT_UCX);
  rondo_transports_carrier = &silent;
  char said[sizeof text];
  memcpy(said, text, sizeof said);
  int of_silent = describe(RONDO_TRANSPORT_UCX);
  rondo_transports_carrier = before;
  assert_int_equal(status, RONDO_ERR_SYSTEM);
  assert_string_equal(said, "a cable\ncannot be used: nobody holds its end\n");
  assert_int_equal(of_silent, RONDO_SUCCESS);
  assert_string_equal(text, "");
}

static void what_is_no_transport_is_refused(void **state) {
  (void)state;
  assert_int_equal(describe(RONDO_TRANSPORT_NONE), RONDO_ERR_INVALID);
  assert_int_equal(describe(RONDO_TRANSPORT_NCCL + 1), RONDO_ERR_INVALID);
  assert_int_equal(describe(-1), RONDO_ERR_INVALID);
  assert_string_equal(text, "");
  assert_int_equal(rondo_transport_describe(RONDO_TRANSPORT_LOCAL, NULL), RONDO_ERR_INVALID);
  assert_int_equal(describe(RONDO_TRANSPORT_LOCAL), RONDO_SUCCESS);
}

// --------------------------------------------------------------- connecting ---

#define PROCESSES 64u
#define ADDRESS_BYTES 512u

static struct rondo_proxy *proxy;
static char broken[PROCESSES][96]; // what was said of each process

static void on_broken(void *owner, uint32_t process, const char *why) {
  (void)owner;
  (void)snprintf(broken[process], sizeof broken[process], "%s", why);
}

static int is_used(void *owner, const struct rondo_proxy_link *link) {
  (void)owner, (void)link;
  return 0;
}

static void open_proxy(void) {
  const struct rondo_proxy_config config = {.calls = &rondo_ucx_carrier,
                                            .process_count = PROCESSES,
                                            .endpoints = 2,
                                            .is_manual = 1,
                                            .broken = on_broken,
                                            .is_used = is_used};
  char why[256];
  memset(broken, 0, sizeof broken);
  assert_int_equal(setenv("UCX_NET_DEVICES", "lo", 1), 0);
  assert_int_equal(rondo_proxy_create(&config, &proxy, why, sizeof why), RONDO_SUCCESS);
  unsetenv("UCX_NET_DEVICES");
}

// The address record of this proxy, as another proxy would send it; then the place of the machine,
// which is this one.
static size_t own_address(char address[ADDRESS_BYTES]) {
  const struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  size_t bytes = 0;
  const void *own = rondo_proxy_address(proxy, &bytes);
  assert_true(bytes + sizeof at <= ADDRESS_BYTES);
  memcpy(address, own, bytes);
  memcpy(address + bytes, &at, sizeof at);
  return bytes + sizeof at;
}

static int say_to(uint32_t process) {
  const struct rondo_proxy_head head = {.type = RONDO_PROXY_CLOSED};
  return rondo_proxy_send_head(proxy, process, &head);
}

static void take_turns(uint32_t turns) {
  for (uint32_t i = 0; i < turns; i++)
    (void)rondo_proxy_progress(proxy);
}

// A case changes the address of this process, of so many bytes, in which UCX's part begins at `at`.
// Returns its length.
static size_t no_machine(char *address, size_t at, size_t bytes) {
  (void)address, (void)at;
  return bytes - sizeof(struct sockaddr_in);
}

static size_t half_a_machine(char *address, size_t at, size_t bytes) {
  (void)address, (void)at;
  return bytes - sizeof(struct sockaddr_in) / 2;
}

static size_t too_much_machine(char *address, size_t at, size_t bytes) {
  (void)at;
  memset(address + bytes, 1, sizeof(struct sockaddr_storage));
  return bytes + sizeof(struct sockaddr_storage);
}

static size_t no_such_family(char *address, size_t at, size_t bytes) {
  (void)at;
  address[bytes - sizeof(struct sockaddr_in)] = AF_UNIX;
  return bytes;
}

static size_t a_family_of_another_length(char *address, size_t at, size_t bytes) {
  (void)at;
  address[bytes - sizeof(struct sockaddr_in)] = AF_INET6;
  return bytes;
}

static size_t no_port(char *address, size_t at, size_t bytes) {
  memset(address + at, 0, 2 * sizeof(uint16_t)); // of IPv4 and of IPv6
  return bytes;
}

static size_t another_segment(char *address, size_t at, size_t bytes) {
  address[at + 2 * sizeof(uint16_t)] ^= 1;
  return bytes;
}

static void what_cannot_be_an_address_is_not_connected_to(void **state) {
  static size_t (*const cases[])(char *, size_t, size_t) = {
      no_machine,      half_a_machine, too_much_machine, no_such_family, a_family_of_another_length,
      another_segment, no_port};
  const size_t at = sizeof(struct rondo_proxy_address);
  char address[ADDRESS_BYTES];
  (void)state;
  open_proxy();
  for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t bytes = cases[i](address, at, own_address(address));
    assert_int_equal(rondo_proxy_meet(proxy, i + 1, address, bytes), RONDO_SUCCESS);
    assert_int_equal(say_to(i + 1), 0);
    take_turns(1);
    assert_string_not_equal(broken[i + 1], "");
  }
  assert_non_null(strstr(broken[6], "UCX_TCP_RX_SEG_SIZE"));
  // Nor is what the proxy itself does not know.
  size_t bytes = own_address(address);
  assert_int_equal(rondo_proxy_meet(proxy, PROCESSES, address, bytes), RONDO_ERR_INVALID);
  assert_int_equal(rondo_proxy_meet(proxy, 60, address, at), RONDO_ERR_INVALID);
  address[at - RONDO_PROXY_NAME_BYTES] ^= 1;
  assert_int_equal(rondo_proxy_meet(proxy, 60, address, bytes), RONDO_ERR_INVALID);
  rondo_proxy_destroy(proxy);
}

int main(void) {
  rondo_test_log_open();
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("transports", shared_memory_says_how_much_there_is),
      RONDO_NAMED_TEST("transports", ucx_says_over_what_it_may_send),
      RONDO_NAMED_TEST("transports", what_cannot_be_used_says_why_last),
      RONDO_NAMED_TEST("transports", what_is_no_transport_is_refused),
      RONDO_NAMED_TEST("transports", what_cannot_be_an_address_is_not_connected_to),
  };
  return cmocka_run_group_tests_name("transports", tests, NULL, NULL);
}
