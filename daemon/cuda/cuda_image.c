// The kernels for every architecture, inside the library, as cuModuleLoadData takes them.
// RONDO_CUDA_IMAGE_FILE names nvcc's output of kernel.cu, if there is one. Weak: a test may replace
// it.
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
