// "Machines" for tests: network namespaces that a bridge joins, all inside a namespace of the
// test's own, so that they are invisible outside and end with the test.
//
//   rondo_machines_open -> [ in a process of the test: rondo_machines_enter ] ->
//   rondo_machines_close
#ifndef RONDO_TESTS_SUPPORT_MACHINES_H
#define RONDO_TESTS_SUPPORT_MACHINES_H

#include <stdint.h>

#define RONDO_MACHINES_MAX 4u

// 2: machines get a second interface, eth1, in a network of its own. Set it before they are made.
extern uint32_t rondo_machines_networks;

// Makes them, and moves the calling process, which has one thread, out of its network. Returns 1,
// or 0 with a line on the standard output where that is not allowed.
int rondo_machines_open(uint32_t count);
// Moves the calling process, which has one thread, to a machine.
void rondo_machines_enter(uint32_t machine);
// Takes its link down, or up again.
void rondo_machines_link(uint32_t machine, int up);
// Makes what goes to it slow, some 8 Mbit/s, or as fast as it is again.
void rondo_machines_slow(uint32_t machine, int slow);
// Returns how many bytes the machine of the calling process has sent over an interface; UINT64_MAX
// if it has no such interface.
uint64_t rondo_machines_sent(const char *interface);
void rondo_machines_close(void);

#endif // RONDO_TESTS_SUPPORT_MACHINES_H
