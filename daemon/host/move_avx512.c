// The kernels for AVX-512 F, BW, DQ and VL, and F16C.
#define RONDO_MOVE_TABLE rondo_move_table_avx512
#include "daemon/host/move_kernels.h"
