// The kernels as part of the programs, as in daemon/cuda/cuda_image.c: GPU_KERNELS_FILE and
// GPU_TIMED_FILE name what nvcc made.
#define GPU_IMAGE(symbol, file)                                                                    \
  __asm__(".pushsection .rodata, \"a\", %progbits\n"                                               \
          ".balign 64\n"                                                                           \
          ".globl " #symbol "\n"                                                                   \
          ".type " #symbol ", %object\n" #symbol ":\n"                                             \
          ".incbin \"" file "\"\n"                                                                 \
          ".size " #symbol ", . - " #symbol "\n"                                                   \
          ".popsection\n")

GPU_IMAGE(gpu_kernels_image, GPU_KERNELS_FILE);
GPU_IMAGE(gpu_timed_image, GPU_TIMED_FILE);

// A source must declare something.
extern const unsigned char gpu_kernels_image[], gpu_timed_image[];
