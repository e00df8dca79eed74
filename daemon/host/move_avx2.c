// The kernels for AVX2 and F16C.
#define RONDO_MOVE_TABLE rondo_move_table_avx2
#include "daemon/host/move_kernels.h"
