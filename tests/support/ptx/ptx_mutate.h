// Breaks instructions of a PTX text, for tests that must notice it. An instruction is chosen by the
// source line that it was compiled from, so the text must have been made with -lineinfo.
#ifndef RONDO_TESTS_SUPPORT_PTX_PTX_MUTATE_H
#define RONDO_TESTS_SUPPORT_PTX_PTX_MUTATE_H

#include <stdint.h>

struct ptx_mutation {
  // A word in the comment at the end of the source line, such as the label of a memory-order edge.
  // For an instruction of a function in base/atomic_cuda.h or daemon/cuda/kernel.cu that was
  // inlined it is the line that calls the function. Null: any line.
  const char *label;
  const char *opcode; // what the instruction begins with, such as "ld.acquire"
  // The first `from` in the instruction becomes `to`. `to` null: the instruction goes.
  const char *from, *to;
  uint32_t which; // 1: only the first such instruction, and so on; 0: all
};

// Returns a copy of the text with the mutation, to be freed by the caller, and writes how many
// instructions were changed. The files that the text names must be there; lines of others have no
// labels. Aborts if there is no memory.
char *ptx_mutate(const char *text, const struct ptx_mutation *mutation, uint32_t *changed);

#endif // RONDO_TESTS_SUPPORT_PTX_PTX_MUTATE_H
