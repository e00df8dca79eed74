// Network addresses, and which of this machine's addresses a job uses.
#ifndef RONDO_RUNTIME_NET_ADDRESS_H
#define RONDO_RUNTIME_NET_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "runtime/net/wire.h"

#define RONDO_ADDRESS_TEXT_BYTES 64u // holds "[IPv6]:port"

// True if `pattern` chooses the interface. A pattern is a comma-separated list of name prefixes;
// "=" in front of the list makes them whole names, and "^" (or "^=") chooses the interfaces that do
// not match. An empty pattern chooses all but loopback and the bridges of containers and virtual
// machines.
bool rondo_address_is_chosen(const char *pattern, const char *interface);

// Lists addresses of this machine: of interfaces that are up and chosen by `pattern`, of `family`
// (4, 6, or 0 for both), IPv4 first, with port 0. Lists loopback if the pattern is empty and
// nothing else fits. Returns how many were written, at most RONDO_TOPOLOGY_ADDRESSES.
uint32_t rondo_address_list(const char *pattern, int family, struct rondo_wire_address *out);

// True if the address belongs to this machine; true if it is loopback.
bool rondo_address_is_here(const struct rondo_wire_address *a);
bool rondo_address_is_loopback(const struct rondo_wire_address *a);

socklen_t rondo_address_to_socket(const struct rondo_wire_address *a, struct sockaddr_storage *s);
// False if the address is neither IPv4 nor IPv6.
bool rondo_address_from_socket(const struct sockaddr *s, struct rondo_wire_address *a);

// Writes "1.2.3.4:5" or "[::1]:5".
void rondo_address_text(const struct rondo_wire_address *a, char *text, size_t bytes);
// Reads "1.2.3.4" or "::1", without a port. False for anything else, such as a name.
bool rondo_address_parse(const char *text, struct rondo_wire_address *a);

// Splits "host", "host:port", "[::1]:port" or "::1". Leaves *port unchanged if there is none. False
// if the text is malformed.
bool rondo_address_split(const char *text, char *host, size_t bytes, uint16_t *port);

#endif // RONDO_RUNTIME_NET_ADDRESS_H
