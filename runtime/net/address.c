#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "runtime/net/address.h"

// The default: neither loopback nor bridges that only containers and virtual machines reach.
#define DEFAULT_PATTERN "^lo,docker,virbr"

bool rondo_address_is_chosen(const char *pattern, const char *interface) {
  if (!*pattern)
    pattern = DEFAULT_PATTERN;
  int is_inverse = *pattern == '^';
  pattern += is_inverse;
  int is_whole = *pattern == '=';
  pattern += is_whole;
  while (*pattern) {
    size_t size = strcspn(pattern, ",");
    int matches = size && strncmp(pattern, interface, size) == 0;
    if (matches && is_whole)
      matches = interface[size] == '\0';
    if (matches)
      return !is_inverse;
    pattern += size;
    pattern += *pattern == ',';
  }
  return is_inverse;
}

bool rondo_address_from_socket(const struct sockaddr *s, struct rondo_wire_address *a) {
  memset(a, 0, sizeof *a);
  if (s->sa_family == AF_INET) {
    struct sockaddr_in in;
    memcpy(&in, s, sizeof in);
    a->family = 4;
    a->port = ntohs(in.sin_port);
    memcpy(a->bytes, &in.sin_addr, 4);
    return true;
  }
  if (s->sa_family != AF_INET6)
    return false;
  struct sockaddr_in6 in6;
  memcpy(&in6, s, sizeof in6);
  a->family = 6;
  a->port = ntohs(in6.sin6_port);
  memcpy(a->bytes, &in6.sin6_addr, 16);
  return true;
}

socklen_t rondo_address_to_socket(const struct rondo_wire_address *a, struct sockaddr_storage *s) {
  memset(s, 0, sizeof *s);
  if (a->family == 4) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(a->port)};
    memcpy(&in.sin_addr, a->bytes, 4);
    memcpy(s, &in, sizeof in);
    return sizeof in;
  }
  struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(a->port)};
  memcpy(&in6.sin6_addr, a->bytes, 16);
  memcpy(s, &in6, sizeof in6);
  return sizeof in6;
}

bool rondo_address_is_loopback(const struct rondo_wire_address *a) {
  static const uint8_t one[16] = {[15] = 1};
  return a->family == 4 ? a->bytes[0] == 127 : memcmp(a->bytes, one, sizeof one) == 0;
}

// A link-local address is useless to other machines: it needs the name of a local link.
static bool address_is_link_local(const struct rondo_wire_address *a) {
  return a->family == 6 && a->bytes[0] == 0xfe && (a->bytes[1] & 0xc0) == 0x80;
}

static bool interface_is_usable(const struct ifaddrs *i, const char *pattern, int family,
                                struct rondo_wire_address *a) {
  if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || !rondo_address_from_socket(i->ifa_addr, a))
    return false;
  return a->family == family && !address_is_link_local(a) &&
         rondo_address_is_chosen(pattern, i->ifa_name);
}

static uint32_t address_list_family(const struct ifaddrs *all, const char *pattern, int family,
                                    struct rondo_wire_address *out, uint32_t count) {
  for (const struct ifaddrs *i = all; i && count < RONDO_TOPOLOGY_ADDRESSES; i = i->ifa_next)
    if (interface_is_usable(i, pattern, family, &out[count]))
      out[count++].port = 0;
  return count;
}

uint32_t rondo_address_list(const char *pattern, int family, struct rondo_wire_address *out) {
  struct ifaddrs *all;
  uint32_t count = 0;
  if (getifaddrs(&all) != 0)
    return 0;
  for (int pass = 0; pass < 2 && count == 0; pass++) {
    if (family != 6)
      count = address_list_family(all, pattern, 4, out, count);
    if (family != 4)
      count = address_list_family(all, pattern, 6, out, count);
    if (*pattern)
      break;
    pattern = "lo";
  }
  freeifaddrs(all);
  return count;
}

bool rondo_address_is_here(const struct rondo_wire_address *a) {
  struct ifaddrs *all;
  struct rondo_wire_address other;
  int is_here = rondo_address_is_loopback(a);
  if (is_here || getifaddrs(&all) != 0)
    return is_here;
  for (const struct ifaddrs *i = all; i && !is_here; i = i->ifa_next)
    is_here = i->ifa_addr && rondo_address_from_socket(i->ifa_addr, &other) &&
              other.family == a->family && memcmp(other.bytes, a->bytes, sizeof a->bytes) == 0;
  freeifaddrs(all);
  return is_here;
}

void rondo_address_text(const struct rondo_wire_address *a, char *text, size_t bytes) {
  char host[INET6_ADDRSTRLEN];
  if (!inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->bytes, host, sizeof host))
    host[0] = '\0';
  (void)snprintf(text, bytes, a->family == 4 ? "%s:%u" : "[%s]:%u", host, a->port);
}

bool rondo_address_parse(const char *text, struct rondo_wire_address *a) {
  memset(a, 0, sizeof *a);
  a->family = 4;
  if (inet_pton(AF_INET, text, a->bytes) == 1)
    return true;
  a->family = 6;
  return inet_pton(AF_INET6, text, a->bytes) == 1;
}

static bool port_try_parse(const char *text, uint16_t *port) {
  uint64_t value = 0;
  const char *end = rondo_number_read(text, UINT16_MAX, &value);
  if (!end || *end || value == 0)
    return false;
  *port = (uint16_t)value;
  return true;
}

bool rondo_address_split(const char *text, char *host, size_t bytes, uint16_t *port) {
  const char *colon = strrchr(text, ':');
  const char *end = text + strlen(text);
  const char *begin = text;
  const char *digits = NULL;
  if (*text == '[') {
    end = strchr(text, ']');
    begin = text + 1;
    if (!end || (end[1] && end[1] != ':'))
      return false;
    digits = end[1] ? end + 2 : NULL;
  } else if (colon &&
             strchr(text, ':') == colon) { // several colons are an IPv6 address without a port
    end = colon;
    digits = colon + 1;
  }
  size_t size = (size_t)(end - begin);
  if (size == 0 || size >= bytes || (digits && !port_try_parse(digits, port)))
    return false;
  memcpy(host, begin, size);
  host[size] = '\0';
  return true;
}
