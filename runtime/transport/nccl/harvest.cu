// The one place that reads NCCL's device headers: a kernel that asks a window where each member's memory is, and looks at
// its first word. It waits for nobody: a lookup is arithmetic, and the words were there before the window was.
#include <nccl.h>
#include <nccl_device.h>

#include "runtime/transport/nccl/harvest_core.h"
#include "runtime/transport/nccl/library.h"

static_assert(sizeof(ncclDevComm) <= RONDO_NCCL_DEVICE_COMM_BYTES, "it is made in a buffer of C");
static_assert(sizeof(ncclDevCommRequirements) <= RONDO_NCCL_REQUIREMENTS_BYTES, "likewise");
static_assert(sizeof(ncclTeam) == sizeof(rondo_nccl_team) && offsetof(ncclTeam, nRanks) == 0 &&
                  offsetof(ncclTeam, rank) == offsetof(rondo_nccl_team, rank),
              "C has a structure of its own for it");

extern "C" __global__ void rondo_nccl_harvest(const rondo_nccl_harvest h) {
  auto window = reinterpret_cast<ncclWindow_t>(h.window);
  auto *found = reinterpret_cast<struct rondo_nccl_found *>(h.found);
  for (uint32_t i = threadIdx.x; i < h.count; i += blockDim.x) {
    auto *memory = static_cast<volatile uint64_t *>(ncclGetLsaPointer(window, 0, (int)i));
    found[i].address = reinterpret_cast<uint64_t>(memory);
    found[i].mark = *memory;
  }
}
