// An input of the analyser that is a copy of memory instead of a file.
#ifndef RONDO_TESTS_SUPPORT_ANALYSE_INPUT_H
#define RONDO_TESTS_SUPPORT_ANALYSE_INPUT_H

#include <string.h>

#include "sim/analyse/input.h"
#include "sim/common/text.h"

// Makes an input of `bytes` bytes at `data`; rondo_analyse_input_close() ends it.
static inline void rondo_test_input(struct rondo_analyse_input *in, const void *data,
                                    size_t bytes) {
  *in = (struct rondo_analyse_input){
      .fd = -1, .mark = SIZE_MAX, .end = bytes, .capacity_bytes = bytes};
  in->data = rondo_sim_alloc(bytes);
  if (bytes) {
    memcpy(in->data, data, bytes);
  }
}

#endif // RONDO_TESTS_SUPPORT_ANALYSE_INPUT_H
