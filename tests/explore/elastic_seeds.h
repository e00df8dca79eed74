// The processes of an explored job whose members change: threads that live the life of
// tests/integration/churn_member.c, and one thread each that steps their blocks.
#ifndef RONDO_TESTS_EXPLORE_ELASTIC_SEEDS_H
#define RONDO_TESTS_EXPLORE_ELASTIC_SEEDS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/explore/random.h"

void elastic_begin(struct random *random);
// Returns the number of the process (virtual_mesh.h).
uint32_t elastic_process_start(uint32_t slot, uint32_t machine, uint64_t seed);
bool elastic_process_has_ended(uint32_t process);
// Ends the program.
_Noreturn void elastic_exit(int status);

#endif // RONDO_TESTS_EXPLORE_ELASTIC_SEEDS_H
