// The constants of gpu-model: published, or what gpu_bench has measured under the same names.
#ifndef RONDO_BENCHMARKS_GPU_GPU_CONSTANTS_H
#define RONDO_BENCHMARKS_GPU_GPU_CONSTANTS_H

enum gpu_constant_index {
  GPU_QUEUE,     // the host and a kernel that polls (B300)
  GPU_HOST_LOAD, // of page-locked memory (H100)
  GPU_PEER,      // a load through NVLink (8 x H100)
  GPU_FENCE,     // of system scope (B300: 0.9 to 1.5)
  GPU_RING,      // bytes of a ring (8 x H100)
  GPU_CONSTANTS
};

static const struct gpu_constant {
  const char *name, *unit;
  double published;
} gpu_constants[GPU_CONSTANTS] = {
    [GPU_QUEUE] = {"host to a polling kernel and back", "us", 4.0},
    [GPU_HOST_LOAD] = {"load, memory of the host", "us", 1.4},
    [GPU_PEER] = {"load, memory of a peer", "us", 0.825},
    [GPU_FENCE] = {"fence.acq_rel.sys, idle", "us", 1.0},
    [GPU_RING] = {"copy to a peer, 32 blocks of 512 threads", "GB/s", 365},
};

#endif // RONDO_BENCHMARKS_GPU_GPU_CONSTANTS_H
