// Unauthenticated connections to a job's listener: they are refused, named in the log, and cannot
// keep members out.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "runtime/net/address.h"
#include "runtime/net/job_address.h"
#include "runtime/net/listener.h"
#include "runtime/net/job_root.h"
#include "tests/support/crew.h"
#include "tests/support/load.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

#define RECORD_BYTES 4096u

static struct rondo_crew crew;
static struct rondo_job_address job; // as a member knows it
static struct rondo_key_pair keys;   // of the process that the test is

// What a connection sent and received.
struct record {
  uint8_t said[RECORD_BYTES], heard[RECORD_BYTES];
  size_t said_bytes, heard_bytes;
};

static void open_listener(uint32_t size) {
  rondo_test_log_clear();
  rondo_crew_init(&crew, size, 60000);
  assert_int_equal(rondo_job_address_read(&crew.cfg, &job), RONDO_SUCCESS);
  rondo_key_pair_init(&keys, (const uint8_t[RONDO_TOPOLOGY_KEY_BYTES]){0, 1});
}

static int call(void) {
  struct sockaddr_storage s;
  socklen_t size = rondo_address_to_socket(&job.addresses[0], &s);
  int fd = socket(s.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&s, size), 0);
  return fd;
}

static void say(int fd, const void *bytes, size_t size) {
  assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
}

// Reads until the other side closes, at most a while; returns what came.
static size_t receive(int fd, uint8_t *bytes, size_t capacity) {
  size_t size = 0;
  for (;;) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 40000), 1);
    ssize_t n = recv(fd, bytes + size, capacity - size, 0);
    if (n <= 0)
      return size;
    size += (size_t)n;
    assert_true(size < capacity);
  }
}

// Reads one frame.
static void hear_frame(int fd, struct rondo_wire_frame *frame, uint8_t *bytes) {
  size_t size = RONDO_WIRE_HEAD_BYTES;
  for (size_t at = 0; at < size;) {
    ssize_t n = recv(fd, bytes + at, size - at, 0);
    assert_true(n > 0);
    at += (size_t)n;
    if (at == RONDO_WIRE_HEAD_BYTES) {
      assert_int_equal(rondo_wire_head_read(bytes, at, 0, &frame->head), 1);
      size += frame->head.size;
    }
  }
  frame->payload = bytes + RONDO_WIRE_HEAD_BYTES;
}

// The log line comes a moment after the connection is cut.
static void await_log(const char *wanted) {
  for (int i = 0; i < 40000 && !rondo_test_log_has(wanted); i++)
    (void)poll(NULL, 0, 1);
  assert_true(rondo_test_log_has(wanted));
}

// The refusal that is the last of what was heard, or 0.
static int refusal_in(const uint8_t *bytes, size_t size) {
  struct rondo_wire_head head;
  if (size < RONDO_WIRE_HEAD_BYTES + 1)
    return 0;
  const uint8_t *last = bytes + size - RONDO_WIRE_HEAD_BYTES - 1;
  if (rondo_wire_head_read(last, RONDO_WIRE_HEAD_BYTES, 0, &head) != 1 ||
      head.type != RONDO_WIRE_REFUSAL || head.size != 1)
    return 0;
  return last[RONDO_WIRE_HEAD_BYTES];
}

// Says something and is refused for that reason, and named.
static void expect_refusal(const void *bytes, size_t size, int refusal) {
  uint8_t heard[RECORD_BYTES];
  int fd = call();
  struct sockaddr_in me = {0};
  socklen_t me_size = sizeof me;
  char address[64];
  assert_int_equal(getsockname(fd, (struct sockaddr *)&me, &me_size), 0);
  (void)snprintf(address, sizeof address, "from 127.0.0.1:%u: %s", ntohs(me.sin_port),
                 rondo_channel_end_text(refusal));
  say(fd, bytes, size);
  size_t heard_bytes = receive(fd, heard, sizeof heard);
  assert_int_equal(refusal_in(heard, heard_bytes), refusal);
  close(fd);
  await_log(address);
}

static void job_still_works(void) {
  rondo_crew_gather(&crew);
  rondo_crew_fini(&crew);
}

static void garbage_is_refused(void **state) {
  (void)state;
  static const char request[] = "GET / HTTP/1.1\r\n\r\n";
  uint8_t bytes[100];
  open_listener(2);
  expect_refusal(request, sizeof request - 1, RONDO_WIRE_REFUSE_GARBAGE);
  memset(bytes, 0, sizeof bytes);
  expect_refusal(bytes, sizeof bytes, RONDO_WIRE_REFUSE_GARBAGE);
  job_still_works();
}

static size_t head_of(uint8_t *bytes, int type, uint32_t size) {
  struct rondo_wire_head head = {
      .version = RONDO_WIRE_VERSION, .type = (uint8_t)type, .size = size};
  rondo_wire_head_write(bytes, &head);
  return RONDO_WIRE_HEAD_BYTES;
}

static void oversized_frames_are_refused_by_their_header(void **state) {
  (void)state;
  uint8_t bytes[RONDO_WIRE_HEAD_BYTES];
  open_listener(2);
  expect_refusal(bytes, head_of(bytes, RONDO_WIRE_HELLO, RONDO_WIRE_UNAUTHENTICATED_BYTES + 1),
                 RONDO_WIRE_REFUSE_GARBAGE);
  expect_refusal(bytes, head_of(bytes, RONDO_WIRE_HELLO, UINT32_MAX), RONDO_WIRE_REFUSE_GARBAGE);
  // So are frames of members on a connection that has proved nothing.
  expect_refusal(bytes, head_of(bytes, RONDO_WIRE_MEMBERSHIP, 4), RONDO_WIRE_REFUSE_GARBAGE);
  expect_refusal(bytes, head_of(bytes, RONDO_WIRE_PROOF, 0), RONDO_WIRE_REFUSE_GARBAGE);
  job_still_works();
}

static void another_version_is_refused(void **state) {
  (void)state;
  uint8_t bytes[RONDO_WIRE_HEAD_BYTES];
  open_listener(2);
  (void)head_of(bytes, RONDO_WIRE_HELLO, RONDO_WIRE_HELLO_BYTES);
  bytes[4]++;
  expect_refusal(bytes, sizeof bytes, RONDO_WIRE_REFUSE_VERSION);
  job_still_works();
}

// Goes through the handshake as far as the listener lets it; records it. Returns what
// rondo_handshake_step said last.
static int prove(int fd, const struct rondo_job_key *as, struct record *record,
                 struct rondo_handshake *p) {
  struct rondo_handshake_reply reply;
  struct rondo_wire_frame frame;
  uint8_t bytes[RONDO_WIRE_HEAD_BYTES + RONDO_WIRE_UNAUTHENTICATED_BYTES];
  uint8_t nonce[RONDO_WIRE_NONCE_BYTES];
  struct rondo_wire_hello hello = {
      .purpose = RONDO_WIRE_TO_ROOT, .from = RONDO_MESH_NOBODY, .to = RONDO_MESH_NOBODY};
  int refusal = 0;
  randombytes_buf(nonce, sizeof nonce);
  rondo_handshake_init(p, as, &keys, nonce);
  rondo_handshake_begin(p, &hello, NULL, &reply);
  while (!refusal && reply.size) {
    say(fd, reply.bytes, reply.size);
    if (record) {
      memcpy(record->said + record->said_bytes, reply.bytes, reply.size);
      record->said_bytes += reply.size;
    }
    hear_frame(fd, &frame, bytes);
    refusal = rondo_handshake_step(p, &frame, &reply);
  }
  return refusal;
}

// True if a member that waits has said why: the text names one of the two addresses of the root.
static bool has_said_why(void) {
  return rondo_test_log_has("the job is not complete yet: 127.0.0.1") ||
         rondo_test_log_has("the job is not complete yet: [::1]");
}

static void a_wrong_secret_is_refused(void **state) {
  (void)state;
  struct rondo_handshake p;
  struct rondo_job_key wrong;
  uint8_t secret[RONDO_HANDSHAKE_SECRET_BYTES] = {1};
  open_listener(2);
  rondo_job_key_init(&wrong, job.key.tag, secret);
  int fd = call();
  assert_int_equal(prove(fd, &wrong, NULL, &p), RONDO_WIRE_REFUSE_SECRET);
  close(fd);
  await_log("it failed to prove that it knows the job's secret");
  // A member that was given a wrong secret does not get in, and says why it is still waiting.
  struct rondo_members *mesh;
  static const struct rondo_members_events deaf;
  struct rondo_config cfg = crew.cfg;
  cfg.id.bytes[20] ^= 1;
  assert_int_equal(rondo_members_calls->start(&cfg, NULL, &deaf, NULL, &mesh), RONDO_SUCCESS);
  for (int i = 0; i < 4000 && !has_said_why(); i++)
    assert_int_equal(rondo_members_await(mesh, 10000000), RONDO_ERR_TIMEOUT);
  assert_true(has_said_why());
  rondo_members_calls->stop(mesh, RONDO_CREW_LONG_NS, 0);
  job_still_works();
}

static void another_job_is_refused(void **state) {
  (void)state;
  struct rondo_handshake p;
  struct rondo_job_key other;
  uint8_t tag[RONDO_WIRE_TAG_BYTES] = {9};
  uint8_t secret[RONDO_HANDSHAKE_SECRET_BYTES] = {1};
  open_listener(2);
  rondo_job_key_init(&other, tag, secret);
  int fd = call();
  assert_int_equal(prove(fd, &other, NULL, &p), RONDO_WIRE_REFUSE_JOB);
  close(fd);
  job_still_works();
}

// The root has no keys, and is no process of the job.
static void a_process_that_looks_for_another_one_is_refused(void **state) {
  (void)state;
  static const uint8_t nonce[RONDO_WIRE_NONCE_BYTES] = {1};
  const struct rondo_wire_hello hello = {.purpose = RONDO_WIRE_TO_PEER, .from = 1, .to = 0};
  struct rondo_handshake p;
  struct rondo_handshake_reply reply;
  open_listener(2);
  rondo_handshake_init(&p, &job.key, &keys, nonce);
  rondo_handshake_begin(&p, &hello, keys.public_key, &reply);
  expect_refusal(reply.bytes, reply.size, RONDO_WIRE_REFUSE_JOB);
  job_still_works();
}

static void a_recorded_conversation_is_of_no_use(void **state) {
  (void)state;
  static struct record record;
  struct rondo_handshake p;
  uint8_t heard[RECORD_BYTES];
  memset(&record, 0, sizeof record);
  open_listener(2);
  int fd = call();
  assert_int_equal(prove(fd, &job.key, &record, &p), 0); // a member, overheard
  close(fd);
  rondo_test_log_clear();
  fd = call();
  say(fd, record.said, record.said_bytes);
  assert_int_equal(refusal_in(heard, receive(fd, heard, sizeof heard)), RONDO_WIRE_REFUSE_SECRET);
  close(fd);
  await_log("it failed to prove that it knows the job's secret");
  job_still_works();
}

// A frame of a process that has proved the secret, as it is sent.
static size_t seal(struct rondo_handshake *p, int type, const void *payload, uint32_t size,
                   uint8_t *bytes) {
  (void)head_of(bytes, type, size);
  if (size)
    memcpy(bytes + RONDO_WIRE_HEAD_BYTES, payload, size);
  rondo_handshake_seal(p, bytes, bytes + RONDO_WIRE_HEAD_BYTES, size,
                       bytes + RONDO_WIRE_HEAD_BYTES + size);
  return RONDO_WIRE_HEAD_BYTES + size + RONDO_WIRE_MAC_BYTES;
}

// Members that break the rules: nothing of what they say counts, and they are cut off.
static void what_is_changed_or_repeated_is_refused(void **state) {
  (void)state;
  uint8_t bytes[256];
  uint8_t heard[RECORD_BYTES];
  const uint8_t rank[4] = {1, 0, 0, 0};
  open_listener(2);
  for (int how = 0; how < 5; how++) {
    struct rondo_handshake p;
    int fd = call();
    assert_int_equal(prove(fd, &job.key, NULL, &p), 0);
    size_t size =
        seal(&p, how == 3 ? RONDO_WIRE_FLUSH : RONDO_WIRE_BYE, rank, how == 4 ? 4 : 0, bytes);
    if (how == 0) // a bit of the hash
      bytes[size - 1] ^= 1;
    if (how == 1) // of the header
      bytes[5] = RONDO_WIRE_FLUSHED;
    if (how == 2) // a number is left out
      size = seal(&p, RONDO_WIRE_BYE, NULL, 0, bytes);
    say(fd, bytes, size);
    assert_int_equal(receive(fd, heard, sizeof heard), 0);
    close(fd);
  }
  job_still_works();
}

static void truncated_frames_hurt_nobody(void **state) {
  (void)state;
  uint8_t bytes[RONDO_WIRE_HEAD_BYTES + RONDO_WIRE_HELLO_BYTES] = {0};
  uint8_t heard[RECORD_BYTES];
  open_listener(2);
  (void)head_of(bytes, RONDO_WIRE_HELLO, RONDO_WIRE_HELLO_BYTES);
  for (size_t size = 0; size < sizeof bytes; size++) {
    int fd = call();
    if (size)
      say(fd, bytes, size);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(receive(fd, heard, sizeof heard), 0);
    close(fd);
  }
  // Eight are logged, the others counted; the listener handles all before it admits a member.
  rondo_crew_gather(&crew);
  assert_int_equal(rondo_test_log_count("refused a connection"), RONDO_LISTENER_LINES);
  rondo_crew_fini(&crew);
}

// More of them than there are places, saying a byte at most: the members come in all the same.
static void slow_connections_give_way(void **state) {
  (void)state;
  enum { CONNECTIONS = 3 * RONDO_LISTENER_UNAUTHENTICATED };
  static int fds[CONNECTIONS];
  uint8_t byte = 'R';
  open_listener(4);
  for (int i = 0; i < CONNECTIONS; i++) {
    fds[i] = call();
    if (i % 2)
      say(fds[i], &byte, 1);
  }
  rondo_crew_gather(&crew);
  assert_true(rondo_test_log_has("it did not finish the handshake in time"));
  for (int i = 0; i < CONNECTIONS; i++)
    close(fds[i]);
  rondo_crew_fini(&crew);
}

// A process of the job has named it and is slow then. The strangers that come after it give way,
// not the process, and it goes on with its handshake.
static void a_slow_process_of_the_job_does_not_give_way(void **state) {
  (void)state;
  enum { CONNECTIONS = 2 * RONDO_LISTENER_UNAUTHENTICATED };
  static int fds[CONNECTIONS];
  struct rondo_handshake slow;
  struct rondo_handshake_reply reply;
  struct rondo_wire_frame frame;
  uint8_t bytes[RONDO_WIRE_HEAD_BYTES + RONDO_WIRE_UNAUTHENTICATED_BYTES];
  static const uint8_t nonce[RONDO_WIRE_NONCE_BYTES] = {1};
  const struct rondo_wire_hello hello = {
      .purpose = RONDO_WIRE_TO_ROOT, .from = RONDO_MESH_NOBODY, .to = RONDO_MESH_NOBODY};
  open_listener(2);
  int fd = call();
  rondo_handshake_init(&slow, &job.key, &keys, nonce);
  rondo_handshake_begin(&slow, &hello, NULL, &reply);
  say(fd, reply.bytes, reply.size);
  hear_frame(fd, &frame, bytes);
  for (int i = 0; i < CONNECTIONS; i++)
    fds[i] = call();
  await_log("it did not finish the handshake in time");
  assert_int_equal(rondo_handshake_step(&slow, &frame, &reply), 0);
  say(fd, reply.bytes, reply.size);
  hear_frame(fd, &frame, bytes);
  assert_int_equal(rondo_handshake_step(&slow, &frame, &reply), 0);
  assert_int_equal(slow.state, RONDO_HANDSHAKE_DONE);
  close(fd);
  for (int i = 0; i < CONNECTIONS; i++)
    close(fds[i]);
  job_still_works();
}

// Random bytes after a good beginning, at the root and at a member, while the job works.
static void noise_does_not_disturb_a_job(void **state) {
  (void)state;
  uint8_t bytes[128];
  uint8_t heard[RECORD_BYTES];
  open_listener(2);
  rondo_crew_gather(&crew);
  int rounds = (int)rondo_test_load(300, 60);
  for (int i = 0; i < rounds; i++) {
    int fd = call();
    randombytes_buf(bytes, sizeof bytes);
    if (i % 3)
      (void)head_of(bytes, RONDO_WIRE_HELLO, RONDO_WIRE_HELLO_BYTES);
    if (i % 3 == 2)
      memcpy(bytes + RONDO_WIRE_HEAD_BYTES, job.key.tag, sizeof job.key.tag);
    say(fd, bytes, sizeof bytes);
    (void)receive(fd, heard, sizeof heard);
    close(fd);
  }
  assert_int_equal(rondo_crew_send(&crew, 0, 1, 0, 1000), RONDO_SUCCESS);
  rondo_crew_await(&crew.members[1], rondo_crew_has_received, 1);
  assert_int_equal(crew.members[1].bad, 0);
  assert_int_equal(crew.members[0].lost + crew.members[1].lost, 0);
  rondo_crew_fini(&crew);
}

int main(void) {
  rondo_test_log_open();
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("listener", garbage_is_refused),
      RONDO_NAMED_TEST("listener", oversized_frames_are_refused_by_their_header),
      RONDO_NAMED_TEST("listener", another_version_is_refused),
      RONDO_NAMED_TEST("listener", a_wrong_secret_is_refused),
      RONDO_NAMED_TEST("listener", another_job_is_refused),
      RONDO_NAMED_TEST("listener", a_process_that_looks_for_another_one_is_refused),
      RONDO_NAMED_TEST("listener", a_recorded_conversation_is_of_no_use),
      RONDO_NAMED_TEST("listener", what_is_changed_or_repeated_is_refused),
      RONDO_NAMED_TEST("listener", truncated_frames_hurt_nobody),
      RONDO_NAMED_TEST("listener", slow_connections_give_way),
      RONDO_NAMED_TEST("listener", a_slow_process_of_the_job_does_not_give_way),
      RONDO_NAMED_TEST("listener", noise_does_not_disturb_a_job),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
