// A newcomer catches up: a process joins a running job and gets the state of its members. Then one
// member is damaged, and gets back only what differs.
//
//   cc 08_shared_state.c $(pkg-config --cflags --libs rondo) -o state && ./state
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rondo/elastic.h>
#include <rondo/state.h>

#define COUNT (UINT64_C(1) << 21) // 8 MiB of float
#define MINUTE_NS INT64_C(60000000000)
#define CHECK(call) status_check(call, #call)

static char why[RONDO_REASON_BYTES];
static float weights[COUNT]; // of a newcomer all zero

static void status_check(int status, const char *call) {
  if (status != RONDO_SUCCESS) {
    fprintf(stderr, "%s: %s %s\n", call, rondo_status_string(status), why);
    exit(1);
  }
}

static void state_sync_print(struct rondo_context ctx, struct rondo_state *state, const char *who) {
  struct rondo_state_report report;
  CHECK(rondo_state_sync(ctx, state, MINUTE_NS, &report, why));
  printf("%s: revision %llu, the last weight is %g, %llu KiB received\n", who,
         (unsigned long long)state->revision, (double)weights[COUNT - 1],
         (unsigned long long)report.received_bytes / 1024);
  fflush(stdout);
}

int main(void) {
  struct rondo_state_tensor tensor = {"weights", weights, COUNT, RONDO_FLOAT32};
  struct rondo_state state = RONDO_STATE_INIT;
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  int ends[2], result = 0;
  state.tensors = &tensor;
  state.tensor_count = 1;
  if (pipe(ends) != 0)
    return 1;
  if (fork() == 0) { // before the first call: a context does not survive fork()
    close(ends[1]);  // so that the end of the parent ends the wait for the id
    if (read(ends[0], &cfg.id, sizeof cfg.id) != (ssize_t)sizeof cfg.id)
      return 1;
    CHECK(rondo_join(&ctx, &cfg, MINUTE_NS, why));
    state_sync_print(ctx, &state, "newcomer");
    weights[7] = -1; // a damage in the first MiB
    state.strategy = RONDO_STATE_RECEIVE_ONLY;
    state_sync_print(ctx, &state, "newcomer");
    CHECK(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, RONDO_FOREVER));
    return 0;
  }
  struct rondo_context alone;
  struct rondo_unique_id id;
  CHECK(rondo_init(&alone, &cfg));
  for (int step = 1; step <= 3; step++) { // the job lives on its own for a while
    for (uint64_t i = 0; i < COUNT; i++)
      weights[i] += 0.5f;
    state_sync_print(alone, &state, "member");
  }
  CHECK(rondo_grow_listen(&id, NULL));
  if (write(ends[1], &id, sizeof id) != (ssize_t)sizeof id)
    return 1;
  CHECK(rondo_grow(alone, &id, 1, MINUTE_NS, &ctx, why));
  CHECK(rondo_destroy(alone, RONDO_DESTROY_DRAIN, RONDO_FOREVER));
  state_sync_print(ctx, &state, "member");
  state_sync_print(ctx, &state, "member");
  CHECK(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, RONDO_FOREVER));
  wait(&result);
  return result != 0;
}
