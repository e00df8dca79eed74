// A process that is slow, or to which another one is too slow, is waited for, and one that is not
// the process that it says is refused: the test is the root of a job and one of its two processes,
// and the mesh under test is the other.
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/net/address.h"
#include "runtime/net/channel.h"
#include "runtime/net/handshake.h"
#include "runtime/net/job_address.h"
#include "runtime/net/job_root.h"
#include "runtime/job/members.h"
#include "runtime/net/mesh_state.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

#define LONG_MS 40000
#define FRAME_BYTES 4096u
// The pauses between so many attempts are longer than a process may refuse connections.
#define REFUSALS 16

// One side of a connection that the test has.
struct line {
  int fd;
  struct rondo_handshake proof;
  uint8_t bytes[FRAME_BYTES]; // of the last frame
};

static struct rondo_job_key job;
static struct rondo_key_pair keys;  // of the test as a process of the job
static struct rondo_key_pair stray; // of no process of the job, but of one that knows its secret
static struct rondo_mesh *mesh;
static int root, member; // listening sockets
static struct rondo_wire_address root_at, member_at;
static char
    local_name[RONDO_TOPOLOGY_NAME_BYTES]; // of the socket `member`; empty: it is at an address

static int listen_at(struct rondo_wire_address *at) {
  struct sockaddr_storage s;
  *at = (struct rondo_wire_address){.family = 4, .bytes = {127, 0, 0, 1}};
  socklen_t size = rondo_address_to_socket(at, &s);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&s, size), 0);
  assert_int_equal(listen(fd, REFUSALS), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&s, &size), 0);
  assert_true(rondo_address_from_socket((struct sockaddr *)&s, at));
  return fd;
}

static void line_admit_as(struct line *line, int listener, const struct rondo_key_pair *self) {
  static const uint8_t nonce[RONDO_WIRE_NONCE_BYTES] = {5};
  struct pollfd p = {.fd = listener, .events = POLLIN};
  assert_int_equal(poll(&p, 1, LONG_MS), 1);
  line->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  assert_true(line->fd >= 0);
  rondo_handshake_init(&line->proof, &job, self, nonce);
}

static void line_admit(struct line *line, int listener) { line_admit_as(line, listener, &keys); }

static void line_read(struct line *line, size_t at, size_t size) {
  for (size_t end = at + size; at < end;) {
    ssize_t n = recv(line->fd, line->bytes + at, end - at, 0);
    assert_true(n > 0);
    at += (size_t)n;
  }
}

static struct rondo_wire_frame line_receive(struct line *line) {
  struct rondo_wire_frame frame = {.payload = line->bytes + RONDO_WIRE_HEAD_BYTES};
  bool is_proved = line->proof.state == RONDO_HANDSHAKE_DONE;
  line_read(line, 0, RONDO_WIRE_HEAD_BYTES);
  assert_int_equal(rondo_wire_head_read(line->bytes, RONDO_WIRE_HEAD_BYTES, is_proved, &frame.head),
                   1);
  line_read(line, RONDO_WIRE_HEAD_BYTES, frame.head.size + (is_proved ? RONDO_WIRE_MAC_BYTES : 0));
  return frame;
}

static void line_reply(struct line *line, const struct rondo_handshake_reply *reply) {
  if (reply->size) // the other side may have closed the connection after its WELCOME
    assert_int_equal(send(line->fd, reply->bytes, reply->size, MSG_NOSIGNAL), (ssize_t)reply->size);
}

static void line_prove(struct line *line) {
  struct rondo_handshake_reply reply;
  while (line->proof.state != RONDO_HANDSHAKE_DONE) {
    struct rondo_wire_frame frame = line_receive(line);
    assert_int_equal(rondo_handshake_step(&line->proof, &frame, &reply), 0);
    line_reply(line, &reply);
  }
}

static void line_send(struct line *line, int type, const struct rondo_wire_writer *w) {
  uint8_t bytes[RONDO_WIRE_HEAD_BYTES + FRAME_BYTES + RONDO_WIRE_MAC_BYTES];
  struct rondo_wire_head head = {
      .version = RONDO_WIRE_VERSION, .type = (uint8_t)type, .size = (uint32_t)w->size};
  uint8_t *end = bytes + RONDO_WIRE_HEAD_BYTES + w->size;
  rondo_wire_head_write(bytes, &head);
  memcpy(bytes + RONDO_WIRE_HEAD_BYTES, w->bytes, w->size);
  rondo_handshake_seal(&line->proof, bytes, bytes + RONDO_WIRE_HEAD_BYTES, w->size, end);
  size_t size = (size_t)(end - bytes) + RONDO_WIRE_MAC_BYTES;
  assert_int_equal(send(line->fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
}

// The mesh under test, and the test, on another machine unless `local_name` is set.
static struct rondo_topology *topology_make(void) {
  uint32_t ranks[] = {0, 1};
  struct rondo_topology_place place = {.node = -1};
  struct rondo_wire_member self = *rondo_mesh_self(mesh);
  struct rondo_wire_member other = {
      .address_count = 1, .rank_count = 1, .ranks = &ranks[1], .places = &place};
  self.rank_count = 1;
  self.ranks = &ranks[0];
  self.places = &place;
  other.addresses[0] = member_at;
  memcpy(other.key, keys.public_key, sizeof other.key);
  if (*local_name) {
    memcpy(other.machine, self.machine, sizeof other.machine);
    (void)snprintf(other.local, sizeof other.local, "%s", local_name);
  }
  struct rondo_topology *topology = rondo_topology_create(2, 2);
  assert_non_null(topology);
  assert_true(rondo_topology_add(topology, &self) && rondo_topology_add(topology, &other));
  return topology;
}

static sem_t is_done;
static struct rondo_topology *topology;
static uint32_t received;

static void on_meet(void *arg) {
  (void)arg;
  (void)rondo_mesh_meet(mesh, 0, topology);
  rondo_mesh_open(mesh);
  (void)sem_post(&is_done);
}

static void on_end(void *arg) {
  (void)arg;
  rondo_mesh_end(mesh);
  (void)sem_post(&is_done);
}

static void on_join(void *arg) {
  struct rondo_shared_bytes *bytes = rondo_shared_bytes_create("hello", 5);
  (void)arg;
  rondo_mesh_control(mesh, RONDO_MESH_ROOT, bytes);
  rondo_shared_bytes_put(bytes);
}

static void control_thread_run(void (*call)(void *arg)) {
  assert_int_equal(sem_init(&is_done, 0, 0), 0);
  assert_int_equal(rondo_mesh_after(mesh, 0, call, NULL), RONDO_SUCCESS);
  while (sem_wait(&is_done) != 0)
    continue;
}

static void on_control(void *arg, uint32_t from, const void *bytes, size_t size) {
  (void)arg, (void)from, (void)bytes, (void)size;
}

static void on_receive(void *arg, struct rondo_mesh_message *message) {
  (void)arg, (void)message;
  received++;
}

// cmocka may not fail a test on another thread.
static void on_trouble(void *arg, uint32_t process, const char *text) {
  (void)arg;
  fprintf(stderr, "process %u: %s\n", process, text);
  _exit(1);
}

static bool may_be_cut;
static uint32_t broken;

static void on_cut(void *arg, uint32_t process, bool is_proven, const char *text) {
  if (is_proven || !may_be_cut)
    on_trouble(arg, process, text);
}

static void on_broke(void *arg, uint32_t process, const char *text) {
  if (!may_be_cut)
    on_trouble(arg, process, text);
  broken++;
}

static void on_waits(void *arg, const char *text) { (void)arg, (void)text; }
static void on_failed(void *arg, const char *text) { on_trouble(arg, RONDO_MESH_ROOT, text); }

// Listens for processes of this machine.
static int listen_local(void) {
  struct sockaddr_storage s;
  (void)snprintf(local_name, sizeof local_name, "rondo-test-%ld", (long)getpid());
  socklen_t size = rondo_channel_local_address(local_name, &s);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&s, size), 0);
  assert_int_equal(listen(fd, REFUSALS), 0);
  return fd;
}

// The configuration of rank 0 of a job at whose root the test listens.
static struct rondo_config job_listen(void) {
  static const uint8_t tag[RONDO_WIRE_TAG_BYTES] = "a tag";
  static const uint8_t secret[RONDO_HANDSHAKE_SECRET_BYTES] = "a secret";
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.rank_count = 2;
  cfg.address_family = 4;
  memcpy(cfg.interfaces, "=lo", sizeof "=lo");
  root = listen_at(&root_at);
  member = listen_at(&member_at);
  rondo_job_key_init(&job, tag, secret);
  rondo_key_pair_init(&keys, (const uint8_t[RONDO_TOPOLOGY_KEY_BYTES]){0, 1});
  rondo_key_pair_init(&stray, (const uint8_t[RONDO_TOPOLOGY_KEY_BYTES]){0, 2});
  rondo_job_address_write_root(&job, secret, &root_at, 1, &cfg.id);
  assert_int_equal(rondo_config_complete(&cfg), RONDO_SUCCESS);
  return cfg;
}

static void mesh_open(const struct rondo_config *cfg) {
  static const struct rondo_mesh_events events = {.control = on_control,
                                                  .receive = on_receive,
                                                  .cut = on_cut,
                                                  .broke = on_broke,
                                                  .waits = on_waits,
                                                  .failed = on_failed};
  assert_int_equal(rondo_mesh_start(cfg, &events, NULL, &rondo_members_gatherer, &mesh),
                   RONDO_SUCCESS);
  topology = topology_make();
  rondo_mesh_begin(mesh);
}

static void mesh_close(void) {
  control_thread_run(on_end);
  rondo_mesh_free(mesh);
  rondo_topology_destroy(topology);
  close(root);
  close(member);
}

// Refuses the handshake that the mesh begins, as a listener without room does.
static void line_refuse(int listener) {
  struct rondo_handshake_reply reply;
  struct line line;
  line_admit(&line, listener);
  (void)line_receive(&line);
  rondo_handshake_refuse(RONDO_WIRE_REFUSE_LATE, &reply);
  line_reply(&line, &reply);
  close(line.fd);
}

static void a_process_that_has_no_time_for_a_handshake_is_not_lost(void **state) {
  (void)state;
  struct line line;
  const struct rondo_mesh_send message = {.to = 1, .bytes = "hello", .size = 5};
  struct rondo_config cfg = job_listen();
  mesh_open(&cfg);
  control_thread_run(on_meet);
  assert_int_equal(rondo_mesh_send(mesh, &message), RONDO_SUCCESS);
  for (int i = 0; i < REFUSALS; i++)
    line_refuse(member);
  line_admit(&line, member);
  line_prove(&line);
  struct rondo_wire_frame frame = line_receive(&line);
  assert_int_equal(frame.head.type, RONDO_WIRE_MESSAGE);
  assert_memory_equal(frame.payload, "hello", 5);
  mesh_close();
  close(line.fd);
}

static void a_root_that_has_no_time_for_a_handshake_is_tried_again(void **state) {
  (void)state;
  struct line line;
  struct rondo_config cfg = job_listen();
  mesh_open(&cfg);
  assert_int_equal(rondo_mesh_after(mesh, 0, on_join, NULL), RONDO_SUCCESS);
  for (int i = 0; i < REFUSALS; i++)
    line_refuse(root);
  line_admit(&line, root);
  line_prove(&line);
  struct rondo_wire_frame frame = line_receive(&line);
  assert_int_equal(frame.head.type, RONDO_WIRE_MEMBERSHIP);
  assert_memory_equal(frame.payload, "hello", 5);
  mesh_close();
  close(line.fd);
}

// -------------------------------------------------------------- a goodbye ---

static sem_t is_held, may_go_on;

static void on_hold(void *arg) {
  (void)arg;
  (void)sem_post(&is_held);
  while (sem_wait(&may_go_on) != 0)
    continue;
}

static void on_look(void *arg) {
  (void)arg;
  if (rondo_mesh_is_idle(mesh))
    (void)sem_post(&is_held);
  else
    (void)rondo_mesh_after(mesh, 1000000, on_look, NULL); // the test's time is the bound
}

// The process has said goodbye and is gone when the mesh, which is slow, sends to it. That fails
// before the goodbye is read, which comes after more bytes than are read at once. The mesh does not
// take the end of the connection for a cut.
static void a_goodbye_is_read_also_when_nothing_can_be_sent_any_more(void **state) {
  (void)state;
  struct line line;
  static uint8_t bytes[FRAME_BYTES];
  const struct rondo_wire_writer text = {.bytes = bytes, .size = sizeof bytes};
  const struct rondo_wire_writer bye = {.bytes = bytes};
  const struct rondo_mesh_send message = {.to = 1, .bytes = "hello", .size = 5};
  struct rondo_config cfg = job_listen();
  assert_int_equal(sem_init(&is_held, 0, 0) | sem_init(&may_go_on, 0, 0), 0);
  close(member);
  member = listen_local();
  mesh_open(&cfg);
  control_thread_run(on_meet);
  received = 0;
  assert_int_equal(rondo_mesh_send(mesh, &message), RONDO_SUCCESS);
  line_admit(&line, member);
  line_prove(&line);
  (void)line_receive(&line);
  assert_int_equal(rondo_mesh_after(mesh, 0, on_hold, NULL), RONDO_SUCCESS);
  while (sem_wait(&is_held) != 0)
    continue;
  for (int i = 0; i < 8; i++)
    line_send(&line, RONDO_WIRE_MESSAGE, &text);
  line_send(&line, RONDO_WIRE_BYE, &bye);
  close(line.fd);
  for (int i = 0; i < 100; i++)
    assert_int_equal(rondo_mesh_send(mesh, &message), RONDO_SUCCESS);
  assert_int_equal(sem_post(&may_go_on), 0);
  assert_int_equal(rondo_mesh_after(mesh, 0, on_look, NULL), RONDO_SUCCESS);
  while (sem_wait(&is_held) != 0)
    continue;
  assert_int_equal(received, 8);
  *local_name = '\0';
  mesh_close();
}

// ------------------------------------------------------------------- a close ---

static const struct rondo_wire_writer empty = {.bytes = (uint8_t[1]){0}};
static const struct rondo_mesh_send hello = {.to = 1, .bytes = "hello", .size = 5};

static void line_expect(struct line *line, int type) {
  assert_int_equal(line_receive(line).head.type, type);
}

static void line_expect_end(struct line *line) {
  assert_int_equal(recv(line->fd, line->bytes, sizeof line->bytes, 0), 0);
  close(line->fd);
}

static void on_idle(void *arg) {
  (void)arg;
  mesh->idle_ns = 1;
  rondo_mesh_close_set_timer(mesh);
  (void)sem_post(&is_done);
}

static void on_nothing(void *arg) {
  (void)arg;
  (void)sem_post(&is_done);
}

// A mesh that sends a message to the test.
static void mesh_open_line(struct line *line) {
  struct rondo_config cfg = job_listen();
  mesh_open(&cfg);
  control_thread_run(on_meet);
  received = broken = 0;
  may_be_cut = false;
  assert_int_equal(rondo_mesh_send(mesh, &hello), RONDO_SUCCESS);
  line_admit(line, member);
  line_prove(line);
  line_expect(line, RONDO_WIRE_MESSAGE);
}

// The next message comes on another connection.
static void line_expect_another(struct line *line) {
  line_admit(line, member);
  line_prove(line);
  line_expect(line, RONDO_WIRE_MESSAGE);
  mesh_close();
  close(line->fd);
  assert_int_equal(broken, 0);
}

// The mesh reads all that the process sends before its answer, and sends nothing until then.
static void a_process_may_send_until_it_answers_a_close(void **state) {
  (void)state;
  struct line line;
  mesh_open_line(&line);
  control_thread_run(on_idle);
  line_expect(&line, RONDO_WIRE_CLOSE);
  assert_int_equal(rondo_mesh_send(mesh, &hello), RONDO_SUCCESS);
  for (int i = 0; i < 8; i++)
    line_send(&line, RONDO_WIRE_MESSAGE, &empty);
  line_send(&line, RONDO_WIRE_CLOSED, &empty);
  line_expect_end(&line);
  line_expect_another(&line);
  assert_int_equal(received, 8);
}

// The mesh answers a close, and sends nothing until the process has closed the connection.
static void a_close_is_answered_after_what_was_sent(void **state) {
  (void)state;
  struct line line;
  mesh_open_line(&line);
  line_send(&line, RONDO_WIRE_MESSAGE, &empty);
  assert_int_equal(rondo_mesh_send(mesh, &hello), RONDO_SUCCESS);
  control_thread_run(on_nothing);
  line_send(&line, RONDO_WIRE_CLOSE, &empty);
  line_expect(&line, RONDO_WIRE_MESSAGE);
  line_expect(&line, RONDO_WIRE_CLOSED);
  assert_int_equal(rondo_mesh_send(mesh, &hello), RONDO_SUCCESS);
  control_thread_run(on_nothing);
  assert_int_equal(recv(line.fd, line.bytes, 1, MSG_DONTWAIT), -1);
  close(line.fd);
  line_expect_another(&line);
  assert_int_equal(received, 1);
}

// Both sides ask at the same time: both answer.
static void both_may_close_at_the_same_time(void **state) {
  (void)state;
  struct line line;
  mesh_open_line(&line);
  control_thread_run(on_idle);
  line_expect(&line, RONDO_WIRE_CLOSE);
  line_send(&line, RONDO_WIRE_CLOSE, &empty);
  line_send(&line, RONDO_WIRE_CLOSED, &empty);
  line_expect(&line, RONDO_WIRE_CLOSED);
  close(line.fd);
  assert_int_equal(rondo_mesh_send(mesh, &hello), RONDO_SUCCESS);
  line_expect_another(&line);
}

// A connection that ends before the answer was cut: messages may be lost.
static void a_close_without_an_answer_is_a_cut(void **state) {
  (void)state;
  struct line line;
  mesh_open_line(&line);
  may_be_cut = true;
  control_thread_run(on_idle);
  line_expect(&line, RONDO_WIRE_CLOSE);
  close(line.fd);
  line_admit(&line, member); // it looks whether the process lives
  line_prove(&line);
  line_expect(&line, RONDO_WIRE_CLOSE); // nobody uses this connection either
  mesh_close();
  close(line.fd);
  assert_int_equal(broken, 1);
}

// --------------------------------------------------------------------- keys ---

// Connects to the mesh as process 1 and begins the handshake.
static void line_connect(struct line *line, const struct rondo_key_pair *self) {
  static uint8_t nonce[RONDO_WIRE_NONCE_BYTES] = {7};
  const struct rondo_wire_hello as = {.purpose = RONDO_WIRE_TO_PEER, .from = 1, .to = 0};
  struct rondo_handshake_reply reply;
  struct sockaddr_storage s;
  socklen_t size = rondo_channel_local_address(rondo_mesh_self(mesh)->local, &s);
  line->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(line->fd >= 0);
  assert_int_equal(connect(line->fd, (struct sockaddr *)&s, size), 0);
  nonce[1]++;
  rondo_handshake_init(&line->proof, &job, self, nonce);
  rondo_handshake_begin(&line->proof, &as, rondo_mesh_self(mesh)->key, &reply);
  line_reply(line, &reply);
}

// Sends a message and asks whether it was read.
// Connects as `self`, proves it, and sends a message that the mesh reads.
static void line_speak(struct line *line, const struct rondo_key_pair *self) {
  static uint8_t number[8];
  const struct rondo_wire_writer w = {.bytes = number, .size = sizeof number};
  line_connect(line, self);
  line_prove(line);
  line_send(line, RONDO_WIRE_MESSAGE, &empty);
  line_send(line, RONDO_WIRE_FLUSH, &w);
  line_expect(line, RONDO_WIRE_FLUSHED);
}

static void keys_begin(void) {
  struct rondo_config cfg = job_listen();
  rondo_test_log_clear();
  mesh_open(&cfg);
  received = broken = 0;
  may_be_cut = false;
}

static void keys_end(struct line *line) {
  assert_true(rondo_test_log_has("it is not process 1 of the job"));
  mesh_close();
  close(line->fd);
  assert_int_equal(received, 1);
  assert_int_equal(broken, 0);
}

// It knows the secret and says the number of another process. Nothing that it sends is read, and
// the process that has the number is not disturbed.
static void a_process_with_the_number_of_another_one_is_refused(void **state) {
  (void)state;
  struct line line;
  struct line other;
  keys_begin();
  control_thread_run(on_meet);
  line_speak(&other, &keys);
  line_connect(&line, &stray);
  line_prove(&line);
  line_expect_end(&line);
  line_send(&other, RONDO_WIRE_CLOSE, &empty);
  line_expect(&other, RONDO_WIRE_CLOSED);
  keys_end(&other);
}

// Before the roster is known the secret is enough. What a process has sent then counts only if the
// roster has its key.
static void a_process_that_came_too_early_is_refused_when_the_roster_comes(void **state) {
  (void)state;
  struct line line;
  struct line other;
  keys_begin();
  line_speak(&line, &stray);
  line_speak(&other, &keys);
  control_thread_run(on_meet);
  line_expect_end(&line);
  keys_end(&other);
}

// The same if its connection has ended before.
static void what_an_early_process_has_left_is_dropped(void **state) {
  (void)state;
  struct line line;
  struct line other;
  keys_begin();
  line_speak(&line, &stray);
  line_send(&line, RONDO_WIRE_CLOSE, &empty);
  line_expect(&line, RONDO_WIRE_CLOSED);
  close(line.fd);
  control_thread_run(on_meet);
  line_connect(&line, &stray);
  line_prove(&line);
  line_expect_end(&line);
  line_speak(&other, &keys);
  keys_end(&other);
}

// It listens where another process should, and knows the secret.
static void a_process_in_the_place_of_another_one_gets_no_message(void **state) {
  (void)state;
  struct line line;
  struct rondo_handshake_reply reply;
  struct rondo_config cfg = job_listen();
  mesh_open(&cfg);
  control_thread_run(on_meet);
  assert_int_equal(rondo_mesh_send(mesh, &hello), RONDO_SUCCESS);
  line_admit_as(&line, member, &stray);
  struct rondo_wire_frame frame = line_receive(&line);
  assert_int_equal(rondo_handshake_step(&line.proof, &frame, &reply), 0);
  line_reply(&line, &reply);
  frame = line_receive(&line);
  assert_int_equal(rondo_handshake_step(&line.proof, &frame, &reply), RONDO_WIRE_REFUSE_SECRET);
  line_reply(&line, &reply);
  line_expect_end(&line);
  line_admit(&line, member);
  line_prove(&line);
  line_expect(&line, RONDO_WIRE_MESSAGE);
  mesh_close();
  close(line.fd);
}

// It shows the public key of the process whose number it says, and has another private key.
static void a_process_without_the_private_key_is_refused(void **state) {
  (void)state;
  struct line line;
  struct rondo_handshake_reply reply;
  struct rondo_config cfg = job_listen();
  struct rondo_key_pair thief = stray;
  memcpy(thief.public_key, keys.public_key, sizeof thief.public_key);
  mesh_open(&cfg);
  control_thread_run(on_meet);
  line_connect(&line, &thief);
  struct rondo_wire_frame frame = line_receive(&line);
  assert_int_equal(rondo_handshake_step(&line.proof, &frame, &reply), 0);
  line_reply(&line, &reply);
  frame = line_receive(&line);
  assert_int_equal(rondo_handshake_step(&line.proof, &frame, &reply), RONDO_WIRE_REFUSE_SECRET);
  line_expect_end(&line);
  mesh_close();
}

// Everybody knows what such a key shares with another one.
static void a_key_that_shares_nothing_is_refused(void **state) {
  (void)state;
  static const struct rondo_key_pair zero;
  struct line line;
  struct rondo_config cfg = job_listen();
  mesh_open(&cfg);
  line_connect(&line, &zero);
  struct rondo_wire_frame frame = line_receive(&line);
  assert_int_equal(frame.head.type, RONDO_WIRE_REFUSAL);
  assert_int_equal(frame.payload[0], RONDO_WIRE_REFUSE_SECRET);
  line_expect_end(&line);
  mesh_close();
}

// ------------------------------------------------------------ a full queue ---

static bool always_full(struct rondo_members *m) {
  (void)m;
  return true;
}

// A registration would tell the other processes more than they take. It is refused, nobody is lost,
// and it succeeds later.
static void a_registration_waits_outside_while_the_mesh_is_full(void **state) {
  (void)state;
  const struct rondo_members_calls *before = rondo_members_calls;
  struct rondo_members_calls full = *before;
  const struct rondo_collective_desc d = rondo_all_reduce(1, 1, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  struct rondo_context ctx;
  struct rondo_config cfg = job_listen();
  full.is_full = always_full;
  assert_int_equal(rondo_init(&ctx, &cfg), RONDO_SUCCESS);
  rondo_members_calls = &full;
  assert_int_equal(rondo_register(ctx, &d, &coll), RONDO_ERR_FULL);
  assert_true(rondo_test_log_has("MiB of messages wait for slow processes"));
  rondo_members_calls = before;
  assert_int_equal(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  close(root);
  close(member);
  assert_int_equal(rondo_destroy(ctx, RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
}

int main(void) {
  rondo_test_log_open();
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("slow", a_process_that_has_no_time_for_a_handshake_is_not_lost),
      RONDO_NAMED_TEST("slow", a_root_that_has_no_time_for_a_handshake_is_tried_again),
      RONDO_NAMED_TEST("slow", a_goodbye_is_read_also_when_nothing_can_be_sent_any_more),
      RONDO_NAMED_TEST("slow", a_process_may_send_until_it_answers_a_close),
      RONDO_NAMED_TEST("slow", a_close_is_answered_after_what_was_sent),
      RONDO_NAMED_TEST("slow", both_may_close_at_the_same_time),
      RONDO_NAMED_TEST("slow", a_close_without_an_answer_is_a_cut),
      RONDO_NAMED_TEST("slow", a_process_with_the_number_of_another_one_is_refused),
      RONDO_NAMED_TEST("slow", a_process_that_came_too_early_is_refused_when_the_roster_comes),
      RONDO_NAMED_TEST("slow", what_an_early_process_has_left_is_dropped),
      RONDO_NAMED_TEST("slow", a_process_in_the_place_of_another_one_gets_no_message),
      RONDO_NAMED_TEST("slow", a_process_without_the_private_key_is_refused),
      RONDO_NAMED_TEST("slow", a_key_that_shares_nothing_is_refused),
      RONDO_NAMED_TEST("slow", a_registration_waits_outside_while_the_mesh_is_full),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
