// peer_urgent_mpi: what bench_urgent measures, with MPI_Iallreduce, which knows no priority.
//
//   mpirun -np 2 peer_urgent_mpi
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/peers/urgent.h"
#include "tools/kit/clock.h"

static char *buffers[URGENT_MAX_COUNT + 1]; // the urgent one comes last
static uint64_t urgent_ns[URGENT_MAX_ROUNDS], all_ns[URGENT_MAX_ROUNDS];

static uint64_t bytes_of(const struct urgent_options *o, uint32_t i) {
  return i < o->count ? o->bytes : o->urgent_bytes;
}

// NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): it does not follow requests through an array
static void round_run(const struct urgent_options *o, uint64_t times_ns[2]) {
  MPI_Request requests[URGENT_MAX_COUNT + 1];
  uint64_t submitted_ns = 0, start_ns = rondo_kit_now_ns();
  for (uint32_t i = 0; i <= o->count; i++) {
    submitted_ns = rondo_kit_now_ns();
    MPI_Iallreduce(MPI_IN_PLACE, buffers[i], (int)(bytes_of(o, i) / sizeof(float)), MPI_FLOAT,
                   MPI_SUM, MPI_COMM_WORLD, &requests[i]);
  }
  MPI_Wait(&requests[o->count], MPI_STATUS_IGNORE);
  times_ns[0] = rondo_kit_now_ns() - submitted_ns;
  MPI_Waitall((int)o->count, requests, MPI_STATUSES_IGNORE);
  times_ns[1] = rondo_kit_now_ns() - start_ns;
}
// NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)

int main(int argc, char **argv) {
  struct urgent_options options = URGENT_OPTIONS_INIT;
  int rank = 0;
  MPI_Init(&argc, &argv); // ends the program when a later call fails
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  urgent_options_read("Measures a small all-reduce behind large ones, with MPI.", argc, argv,
                      &options);
  for (uint32_t i = 0; i <= options.count; i++) {
    buffers[i] = malloc(bytes_of(&options, i));
    if (buffers[i])
      memset(buffers[i], 0, bytes_of(&options, i)); // the pages come now
    else
      MPI_Abort(MPI_COMM_WORLD, 1);
  }
  for (uint32_t i = 0; i <= options.rounds; i++) {
    uint64_t times_ns[2], most_ns[2];
    MPI_Barrier(MPI_COMM_WORLD);
    round_run(&options, times_ns);
    MPI_Allreduce(times_ns, most_ns, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    if (i > 0) { // the first one warms up
      urgent_ns[i - 1] = most_ns[0];
      all_ns[i - 1] = most_ns[1];
    }
  }
  if (rank == 0)
    urgent_print("mpi", &options, urgent_ns, all_ns);
  for (uint32_t i = 0; i <= options.count; i++)
    free(buffers[i]);
  MPI_Finalize();
  return 0;
}
