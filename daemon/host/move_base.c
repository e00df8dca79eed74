// The kernels for the architecture that the compiler was told to build for.
#define RONDO_MOVE_TABLE rondo_move_table_base
#include "daemon/host/move_kernels.h"
