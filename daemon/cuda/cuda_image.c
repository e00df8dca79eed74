// The kernels for every architecture, inside the library, as cuModuleLoadData takes them.
// RONDO_CUDA_IMAGE_FILE names nvcc's output of kernel.cu, if there is one. Weak: a test may replace
// it.
#include <stdio.h>

#include "daemon/cuda/cuda_backend.h"

#if defined(RONDO_CUDA_IMAGE_FILE)
__asm__(".pushsection .rodata, \"a\", %progbits\n"
        ".balign 64\n"
        ".weak rondo_cuda_image\n"
        ".hidden rondo_cuda_image\n"
        ".type rondo_cuda_image, %object\n"
        "rondo_cuda_image:\n"
        ".incbin \"" RONDO_CUDA_IMAGE_FILE "\"\n"
        ".size rondo_cuda_image, . - rondo_cuda_image\n"
        ".popsection\n");
#endif

const void *rondo_cuda_kernels(void) { return rondo_cuda_image; }

// Ten times the compute capabilities that the image has machine code for. It runs on devices of the
// same major version from there on.
#if !defined(RONDO_CUDA_ARCHITECTURES)
#define RONDO_CUDA_ARCHITECTURES 0
#endif
static const int architectures[] = {RONDO_CUDA_ARCHITECTURES};

bool rondo_cuda_image_fits(int compiler, int driver, int architecture, char *why) {
  if (driver >= compiler)
    return true;
  for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
    if (architectures[i] / 10 == architecture / 10 && architectures[i] <= architecture)
      return true;
  snprintf(why, RONDO_CUDA_CLAUSE_BYTES,
           "there is no machine code for compute capability %d.%d, and this driver cannot compile "
           "the PTX of CUDA %d.%d: install a driver of CUDA %d.%d or later",
           architecture / 10, architecture % 10, compiler / 1000, compiler % 1000 / 10,
           compiler / 1000, compiler % 1000 / 10);
  return false;
}
