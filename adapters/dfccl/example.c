// The program of the paper's section 6.1: every rank starts the same all-reduces in its own order,
// in every round. Other libraries hang in the first round.
//
//   cc -std=c17 example.c $(pkg-config --cflags --libs rondo-dfccl) -o example
//
// C and C++. Prints one line, and exits with 0 if every element is right.
#include <pthread.h>

#include <dfccl.h>

#define RANKS 4
#define COLLECTIVES 8
#define ROUNDS 50
#define LARGEST ((size_t)64 << (COLLECTIVES - 1))

struct rank {
  pthread_t thread;
  int number;
  rankCtx_t ctx;
  float send[COLLECTIVES][LARGEST], recv[COLLECTIVES][LARGEST];
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int ended, failed; // runs so far; whether one failed
};

static size_t count_of(int collId) { return (size_t)64 << collId; }

// The poller thread calls this once for each run.
static void on_end(void *callbackArgs, ret_t status) {
  struct rank *rank = (struct rank *)callbackArgs;
  pthread_mutex_lock(&rank->lock);
  rank->ended++;
  rank->failed |= status != RONDO_SUCCESS;
  pthread_cond_signal(&rank->changed);
  pthread_mutex_unlock(&rank->lock);
}

static ret_t rank_prepare(struct rank *rank) {
  uint32_t devices[RANKS];
  for (uint32_t i = 0; i < RANKS; i++)
    devices[i] = i;
  devSet_t devSet = dfcclDevSet(devices, RANKS);
  ret_t status = dfcclInit(&rank->ctx, rank->number);
  for (int collId = 0; collId < COLLECTIVES && status == RONDO_SUCCESS; collId++)
    status = dfcclRegisterAllReduce(count_of(collId), dfcclFloat32, dfcclSum, collId, devSet, 0,
                                    rank->ctx);
  return status;
}

// Starts all collectives in an order that depends on the round and the rank, then waits.
static ret_t run_round(struct rank *rank, int round) {
  ret_t status = RONDO_SUCCESS;
  for (int i = 0; i < COLLECTIVES && status == RONDO_SUCCESS; i++) {
    int collId =
        (3 * rank->number + round + (rank->number % 2 ? i : COLLECTIVES - i)) % COLLECTIVES;
    for (size_t k = 0; k < count_of(collId); k++)
      rank->send[collId][k] = (float)(rank->number + collId + round);
    status =
        dfcclRunAllReduce(rank->send[collId], rank->recv[collId], collId, on_end, rank, rank->ctx);
  }
  pthread_mutex_lock(&rank->lock);
  while (status == RONDO_SUCCESS && rank->ended < COLLECTIVES * (round + 1))
    pthread_cond_wait(&rank->changed, &rank->lock);
  pthread_mutex_unlock(&rank->lock);
  return status;
}

static int wrong_elements(const struct rank *rank, int round) {
  int wrong = 0;
  for (int collId = 0; collId < COLLECTIVES; collId++) {
    float expected = 0;
    for (int r = 0; r < RANKS; r++)
      expected += (float)(r + collId + round);
    for (size_t k = 0; k < count_of(collId); k++)
      wrong += rank->recv[collId][k] != expected;
  }
  return wrong;
}

static void *rank_main(void *arg) {
  struct rank *rank = (struct rank *)arg;
  ret_t status = rank_prepare(rank);
  for (int round = 0; round < ROUNDS && status == RONDO_SUCCESS; round++) {
    status = run_round(rank, round);
    rank->failed |= wrong_elements(rank, round) != 0;
  }
  if (status == RONDO_SUCCESS)
    status = dfcclDestroy(rank->ctx);
  if (status != RONDO_SUCCESS)
    fprintf(stderr, "rank %d: %s\n", rank->number, rondo_status_string(status));
  rank->failed |= status != RONDO_SUCCESS;
  return NULL;
}

int main(void) {
  static struct rank ranks[RANKS];
  int failed = 0;
  for (int r = 0; r < RANKS; r++) {
    ranks[r].number = r;
    pthread_mutex_init(&ranks[r].lock, NULL);
    pthread_cond_init(&ranks[r].changed, NULL);
  }
  for (int r = 0; r < RANKS; r++)
    if (pthread_create(&ranks[r].thread, NULL, rank_main, &ranks[r]))
      return 1;
  for (int r = 0; r < RANKS; r++) {
    pthread_join(ranks[r].thread, NULL);
    failed |= ranks[r].failed;
  }
  printf("%d ranks, each with an order of its own for %d all-reduces, %d rounds: %s\n", RANKS,
         COLLECTIVES, ROUNDS, failed ? "WRONG" : "every element right");
  return failed;
}
