// The kernels for what the compiler was told to build for, x86-64 or another architecture.
#define RONDO_MOVE_TABLE rondo_move_table_base
#include "daemon/host/move_kernels.h"
