// Two processes, a rank each. Rank 0 makes the id of the job and passes it on: here through a pipe,
// in your program by MPI_Bcast, a file or whatever there is.
//
//   cc 03_two_processes.c $(pkg-config --cflags --libs rondo) -o two_processes && ./two_processes
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rondo/rondo.h>

#define CHECK(call) status_check(call, #call)

static void status_check(int status, const char *call) {
  if (status != RONDO_SUCCESS) {
    fprintf(stderr, "%s: %s\n", call, rondo_status_string(status));
    exit(1);
  }
}

static void rank_run(uint32_t rank, const struct rondo_unique_id *id) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.id = *id;
  cfg.rank = rank;
  cfg.rank_count = 2;
  struct rondo_context ctx;
  CHECK(rondo_init(&ctx, &cfg));

  // All-gather: each rank gives one number and gets those of all.
  int32_t mine = (int32_t)getpid(), all[2];
  struct rondo_collective_desc desc = rondo_all_gather(1, 1, RONDO_INT32);
  struct rondo_collective gather;
  CHECK(rondo_register(ctx, &desc, &gather));
  CHECK(rondo_run(ctx, gather, &mine, all, NULL, NULL));
  CHECK(rondo_wait(ctx, gather, RONDO_LAST_RUN, RONDO_FOREVER));
  printf("rank %u: the processes are %d and %d\n", rank, all[0], all[1]);
  CHECK(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, RONDO_FOREVER));
}

int main(void) {
  int ends[2], result = 0;
  struct rondo_unique_id id;
  if (pipe(ends) != 0)
    return 1;
  pid_t child = fork(); // before the first call: a context does not survive fork()
  if (child == 0) {
    close(ends[1]); // so that the end of the parent ends the wait for the id
    if (read(ends[0], &id, sizeof id) != (ssize_t)sizeof id)
      return 1;
    rank_run(1, &id);
    return 0;
  }
  // From here on the process listens for the other ranks; the id says where.
  CHECK(rondo_unique_id_listen(&id, NULL));
  if (child < 0 || write(ends[1], &id, sizeof id) != (ssize_t)sizeof id)
    return 1;
  rank_run(0, &id);
  return waitpid(child, &result, 0) == child && result == 0 ? 0 : 1;
}
