// The topology of a job: for each rank its process, NUMA node and device, and for each machine its
// network interfaces. All processes of a job have the same one, made of the roster that the root
// sends. Plans are made from it.
//
//   create -> add (each process, in the order of their numbers) -> read -> destroy
//
// Nobody changes a topology once its last process has been added; from then on any thread may read
// it. What the processes of a machine share is kept once.
#ifndef RONDO_RUNTIME_NET_TOPOLOGY_H
#define RONDO_RUNTIME_NET_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

struct rondo_wire_address;
struct rondo_wire_member;

#define RONDO_TOPOLOGY_NOBODY UINT32_MAX   // the process of a rank that never joined
#define RONDO_TOPOLOGY_NAME_BYTES 64u      // of a name, with its end
#define RONDO_TOPOLOGY_INTERFACE_BYTES 16u // of an interface's name, with its end
#define RONDO_TOPOLOGY_INTERFACES 16u      // of one machine
#define RONDO_TOPOLOGY_ADDRESSES 4u        // of one process
#define RONDO_TOPOLOGY_KEY_BYTES 32u       // of the public key of a process
#define RONDO_TOPOLOGY_CORE_WORDS 16u      // of 64 cores each

// Where a rank is on its machine.
struct rondo_topology_place {
  uint64_t pci;   // of a GPU: domain << 16 | bus << 8 | device << 3 | function
  int16_t node;   // NUMA node of the device; -1: unknown, or there is only one
  uint8_t is_gpu; // 0: the device is the host CPU
  uint8_t links;  // of a GPU: GPUs of its machine to which it has a link such as NVLink
  uint8_t reserved[4];
};

// A network interface. A port of an InfiniBand or RoCE adapter and the network interface that
// belongs to it are listed both.
struct rondo_topology_interface {
  char name[RONDO_TOPOLOGY_INTERFACE_BYTES];
  uint32_t mbit;   // speed in Mbit/s; 0: unknown
  int16_t node;    // NUMA node; -1: unknown, or there is only one
  uint8_t is_rdma; // 1: a port of an InfiniBand or RoCE adapter
  uint8_t reserved;
};

// Processes of one machine have the same boot of the same kernel and the same network namespace,
// and are of the same container and user.
struct rondo_topology_machine {
  uint64_t id[2];
  uint64_t pid_namespace, user_namespace;
  uint32_t uid;
  uint8_t address_count, interface_count;
  char host[RONDO_TOPOLOGY_NAME_BYTES]; // its own name
  struct rondo_wire_address *addresses; // at which its processes listen; without ports
  struct rondo_topology_interface *interfaces;
  uint32_t
      first; // the lowest machine with this id: processes of a container or user have their own
  uint64_t cores[RONDO_TOPOLOGY_CORE_WORDS]; // of `first`: cores that processes of the id may use
};

struct rondo_topology_process {
  uint32_t machine;
  uint32_t pid; // in its own namespace
  uint32_t rank_count;
  uint8_t asks_window;   // 1: its devices are to share memory through an NCCL window
  const uint32_t *ranks; // ascending
  uint16_t ports[RONDO_TOPOLOGY_ADDRESSES]; // by address of the machine
  char local[RONDO_TOPOLOGY_NAME_BYTES];    // name of its socket for processes of its machine
  uint8_t key[RONDO_TOPOLOGY_KEY_BYTES];    // its public key
};

struct rondo_topology {
  uint32_t rank_count, process_count, machine_count;
  uint32_t *process_of;                // by rank; RONDO_TOPOLOGY_NOBODY: it never joined
  struct rondo_topology_place *places; // by rank
  struct rondo_topology_process *processes;
  struct rondo_topology_machine *machines;
  // For rondo_topology_add.
  uint32_t *ranks;
  uint32_t listed_count, process_capacity, machine_capacity;
};

// Makes a topology of no process yet, with room for `process_count`. Null: no memory.
struct rondo_topology *rondo_topology_create(uint32_t rank_count, uint32_t process_count);
void rondo_topology_destroy(struct rondo_topology *topology); // null is allowed

// Adds the next process. False if it has no rank, a rank that is not below rank_count or is in
// another process, if there is no room for it, or without memory; the topology is then unchanged.
bool rondo_topology_add(struct rondo_topology *topology, const struct rondo_wire_member *member);

// Writes the `i`th address at which a process listens, with its port.
void rondo_topology_address(const struct rondo_topology *topology, uint32_t process, uint32_t i,
                            struct rondo_wire_address *out);

// Returns how many cores the processes of the job may use on that process's machine; 0: unknown.
uint32_t rondo_topology_cores(const struct rondo_topology *topology, uint32_t process);

// Returns how many InfiniBand or RoCE ports of that process's machine are as fast as the fastest
// one; 1 if there is none. Other interfaces count as one, because all processes of a machine use
// the same one of them.
uint32_t rondo_topology_ports(const struct rondo_topology *topology, uint32_t process);

// True if both processes can pass file descriptors to each other, and so share memory.
bool rondo_topology_is_same_machine(const struct rondo_topology *topology, uint32_t a, uint32_t b);

#endif // RONDO_RUNTIME_NET_TOPOLOGY_H
