// A kernel that looks up where each member's memory is in a window, and reads its first word. The
// only source that reads NCCL's device headers. It waits for nothing: the lookup is arithmetic, and
// the words were written before the window was registered.
#include <nccl.h>
#include <nccl_device.h>

#include "runtime/transport/nccl/window_lookup_core.h"
#include "runtime/transport/nccl/library.h"

static_assert(sizeof(ncclDevComm) <= RONDO_NCCL_DEVICE_COMM_BYTES, "C allocates it as a buffer");
static_assert(sizeof(ncclDevCommRequirements) <= RONDO_NCCL_REQUIREMENTS_BYTES,
              "C allocates it as a buffer");
static_assert(sizeof(ncclTeam) == sizeof(rondo_nccl_team) && offsetof(ncclTeam, nRanks) == 0 &&
                  offsetof(ncclTeam, rank) == offsetof(rondo_nccl_team, rank),
              "C declares the structure itself");

extern "C" __global__ void rondo_nccl_lookup(const rondo_nccl_lookup h) {
  auto window = reinterpret_cast<ncclWindow_t>(h.window);
  auto *found = reinterpret_cast<struct rondo_nccl_found *>(h.found);
  for (uint32_t i = threadIdx.x; i < h.count; i += blockDim.x) {
    auto *memory = static_cast<volatile uint64_t *>(ncclGetLsaPointer(window, 0, (int)i));
    found[i].address = reinterpret_cast<uint64_t>(memory);
    found[i].mark = *memory;
  }
}
