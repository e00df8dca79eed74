// Addresses of this machine and of others, and which of them a job uses.
#ifndef RONDO_RUNTIME_NET_ADDRESS_H
#define RONDO_RUNTIME_NET_ADDRESS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "runtime/net/wire.h"

#define RONDO_ADDRESS_TEXT_BYTES 64u // "[IPv6]:port" and more

// 1 if an interface of this name is chosen by `pattern`: names' beginnings, separated by commas;
// whole names after "="; all others after "^" (or "^="). An empty pattern chooses all but loopback
// and the bridges of containers and virtual machines.
int rondo_address_is_chosen(const char *pattern, const char *interface);

// The addresses of this machine's interfaces that are up, chosen by `pattern` and of `family` (0:
// any, 4 or 6), IPv4 first, ports 0. If an empty pattern leaves none, loopback. Returns how many were
// written, at most RONDO_WIRE_ADDRESSES; 0: none fits.
uint32_t rondo_address_list(const char *pattern, int family, struct rondo_wire_address *out);

// 1 if the address is one of this machine; 1 if it is loopback.
int rondo_address_is_here(const struct rondo_wire_address *a);
int rondo_address_is_loopback(const struct rondo_wire_address *a);

socklen_t rondo_address_to_socket(const struct rondo_wire_address *a, struct sockaddr_storage *s);
// Returns 1, or 0 if it is neither IPv4 nor IPv6.
int rondo_address_from_socket(const struct sockaddr *s, struct rondo_wire_address *a);

// Writes "1.2.3.4:5" or "[::1]:5".
void rondo_address_text(const struct rondo_wire_address *a, char *text, size_t bytes);
// Reads "1.2.3.4" or "::1" (no port). Returns 1, or 0 if it is a name.
int rondo_address_parse(const char *text, struct rondo_wire_address *a);

// Splits "host", "host:port", "[::1]:port" or "::1"; *port stays as it is where none is given.
// Returns 1, or 0 if it makes no sense.
int rondo_address_split(const char *text, char *host, size_t bytes, uint16_t *port);

#endif // RONDO_RUNTIME_NET_ADDRESS_H
