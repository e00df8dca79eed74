#include "runtime/transport/ucx/ucx.h"

#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include "base/fork.h"

#define MESSAGE_ID 1u
#define ENDPOINTS RONDO_MAX_ENDPOINTS // to a process
#define CLOSE_ROUNDS 2000u            // rounds that closing waits at most for endpoints to close
#define CLOSE_PAUSE_NS 50000
#define RDMA_DEVICES "/sys/class/infiniband"
#define ASK_BYTES "512k" // messages of at least this use rendezvous where there is only TCP
// Bytes that TCP receives, and sends, at once: half a slot of the usual size and its head.
#define SEGMENT_VARIABLE "UCX_TCP_RX_SEG_SIZE"
#define SEGMENT_BYTES "144k"
#define SEGMENT_CHARS 12u

// ------------------------------------------------------------------ library ---

#define UCX_CALLS(X)                                                                               \
  X(ucp_config_read)                                                                               \
  X(ucp_config_modify)                                                                             \
  X(ucp_config_release)                                                                            \
  X(ucp_init_version)                                                                              \
  X(ucp_cleanup)                                                                                   \
  X(ucp_context_print_info)                                                                        \
  X(ucp_get_version_string)                                                                        \
  X(ucp_worker_create)                                                                             \
  X(ucp_worker_destroy)                                                                            \
  X(ucp_listener_create)                                                                           \
  X(ucp_listener_query)                                                                            \
  X(ucp_listener_reject)                                                                           \
  X(ucp_listener_destroy)                                                                          \
  X(ucp_worker_set_am_recv_handler)                                                                \
  X(ucp_worker_progress)                                                                           \
  X(ucp_worker_arm)                                                                                \
  X(ucp_worker_get_efd)                                                                            \
  X(ucp_ep_create)                                                                                 \
  X(ucp_ep_close_nbx)                                                                              \
  X(ucp_am_send_nbx)                                                                               \
  X(ucp_am_recv_data_nbx)                                                                          \
  X(ucp_request_free)                                                                              \
  X(ucs_status_string)

// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration takes none
#define DECLARE(name) __typeof__(&name) name;
static struct {
  bool is_loaded; // or is being loaded
  char why[128];  // empty: it can be used
  struct {
    UCX_CALLS(DECLARE)
  } calls;
} library;
#undef DECLARE

static void *library_find_call(void *handle, const char *name) {
  void *call = handle ? dlsym(handle, name) : NULL;
  if (!call && !library.why[0])
    (void)snprintf(library.why, sizeof library.why, "UCX has no %s", name);
  return call;
}

static bool has_rdma(void) { return access(RDMA_DEVICES, F_OK) == 0; }

// Stops UCX from patching brk and similar functions of libc when it is loaded. UCX tests its
// patches while other threads may be inside malloc, whose heap can end in the wrong place then. UCX
// patches them to learn which memory is unmapped, which matters only where memory is registered
// with devices. Only the environment can stop it. Other threads may read the environment, so they
// get a new array, and the old one stays allocated.
static void library_forbid_patches(void) {
  static char word[] = "UCX_MEM_EVENTS=n";
  size_t count = 0;
  while (environ && environ[count])
    count++;
  char **changed = malloc((count + 2) * sizeof *changed);
  if (!changed || !environ || has_rdma() || getenv("UCX_MEM_EVENTS")) {
    free(changed);
    return;
  }
  memcpy(changed, environ, count * sizeof *changed);
  changed[count] = word;
  changed[count + 1] = NULL;
  environ = changed;
}

// UCX does not work in a forked child if the parent has used it: its locks may never be released.
static void library_refuse_child(void) {
  if (library.is_loaded && !library.why[0])
    (void)snprintf(library.why, sizeof library.why,
                   "process %lld, from which this one was forked, has used UCX",
                   (long long)rondo_forked_from());
}
RONDO_ON_FORK(library_refuse_child)

static void library_load(void) {
  library.is_loaded = true;
  library_forbid_patches();
  void *handle = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    (void)snprintf(library.why, sizeof library.why, "UCX cannot be loaded: %s",
                   reason ? reason : "no reason given");
    return;
  }
#define FIND(name) *(void **)&library.calls.name = library_find_call(handle, #name);
  UCX_CALLS(FIND)
#undef FIND
}

#define UCX(name) library.calls.name

// ------------------------------------------------------------------- carrier ---

// A connection to or from another process. Each process makes as many to a peer as `connect` asks
// for, at most ENDPOINTS, with sockets, as a client to a server: between workers that are connected
// by their own addresses, UCX 1.13 aborts the process if the other one dies meanwhile.
//
// Of two processes the one with the higher number sends over the connections that the other one has
// made, as soon as it knows them. So each TCP connection carries data both ways, and data
// acknowledge data. Without that the kernel sends an acknowledgement of its own for each small
// message: the call that receives the message then takes 4 to 5 us instead of 0.8.
struct endpoint {
  struct endpoint *next; // in `incoming`
  struct rondo_carrier *carrier;
  uint32_t process; // the peer; incoming: UNKNOWN_PROCESS until a message has come from it
  int is_broken;
  int has_sent; // outgoing: a message, with which the receiver learns its own end of the connection
  ucp_ep_h ep;
};

#define UNKNOWN_PROCESS UINT32_MAX
#define INCOMING_MAX 65536u

// A connection that a peer asks for.
struct request {
  struct request *next;
  ucp_conn_request_h connection;
};

// The address that peers get. Ports are in network order; 0: there is none.
struct ports {
  uint16_t ipv4, ipv6;
  char segment[SEGMENT_CHARS]; // bytes that TCP receives at once; empty: the default of UCX
};

// A send or a receive that UCX does not finish at once.
struct operation {
  struct operation *next;
  struct rondo_carrier *carrier;
  void *ticket;
};

struct rondo_carrier {
  const struct rondo_carrier_events *events;
  void *arg;
  ucp_context_h context;
  ucp_worker_h worker;
  ucp_listener_h listeners[2]; // IPv4, IPv6
  struct ports ports;
  struct request *requests;
  struct endpoint *incoming;
  uint32_t incoming_count;
  int worker_fd, wake_fd;
  uint32_t process; // this one
  // By process, then by number: those that messages are sent over. `outgoing`: made here.
  // `answering`: made by a process with a lower number; null: not known yet.
  struct endpoint **outgoing, **answering;
  uint32_t endpoint_count; // in each
  ucp_ep_h arriving; // where the message that is arriving has come from; null: UCX did not say
  struct operation *idle;
  uint32_t closing; // endpoints that UCX has not closed yet
  int is_closed;    // no more events
};

static struct operation *operation_alloc(struct rondo_carrier *c, void *ticket) {
  struct operation *o = c->idle;
  if (o)
    c->idle = o->next;
  else
    o = malloc(sizeof *o);
  if (o) {
    o->carrier = c;
    o->ticket = ticket;
  }
  return o;
}

static void operation_release(struct operation *o) {
  o->next = o->carrier->idle;
  o->carrier->idle = o;
}

// The parameters of a request for `o`, without its callback.
static ucp_request_param_t operation_param(struct operation *o) {
  return (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                               UCP_OP_ATTR_FIELD_USER_DATA |
                                               UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                               .user_data = o,
                               .memory_type = UCS_MEMORY_TYPE_HOST};
}

static int status_convert(ucs_status_t status) {
  return status == UCS_OK ? RONDO_SUCCESS : RONDO_ERR_PEER;
}

// ------------------------------------------------------------------ receiving ---

static void operation_on_received(void *request, ucs_status_t status, size_t length, void *arg) {
  struct operation *o = arg;
  struct rondo_carrier *c = o->carrier;
  (void)length;
  if (!c->is_closed)
    c->events->landed(c->arg, o->ticket, status_convert(status));
  operation_release(o);
  UCX(ucp_request_free)(request);
}

// Receives the payload of a rendezvous straight to where it goes.
static void payload_fetch(struct rondo_carrier *c, void *rendezvous, void *to, size_t bytes,
                          void *ticket) {
  struct operation *o = operation_alloc(c, ticket);
  if (!o) {
    c->events->landed(c->arg, ticket, RONDO_ERR_NO_MEMORY);
    return;
  }
  ucp_request_param_t param = operation_param(o);
  param.cb.recv_am = operation_on_received;
  void *request = UCX(ucp_am_recv_data_nbx)(c->worker, rendezvous, to, bytes, &param);
  if (request && !UCS_PTR_IS_ERR(request))
    return;
  c->events->landed(c->arg, ticket, request ? RONDO_ERR_PEER : RONDO_SUCCESS);
  operation_release(o);
}

static ucs_status_t carrier_on_message(void *arg, const void *head, size_t head_bytes, void *data,
                                       size_t bytes, const ucp_am_recv_param_t *param) {
  struct rondo_carrier *c = arg;
  void *ticket = NULL;
  if (c->is_closed)
    return UCS_OK;
  c->arriving = param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP ? param->reply_ep : NULL;
  void *to = c->events->arrive(c->arg, head, head_bytes, bytes, &ticket);
  c->arriving = NULL;
  if (!to)
    return UCS_OK;
  if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
    payload_fetch(c, data, to, bytes, ticket);
    return UCS_INPROGRESS;
  }
  memcpy(to, data, bytes);
  c->events->landed(c->arg, ticket, RONDO_SUCCESS);
  return UCS_OK;
}

// -------------------------------------------------------------------- sending ---

static void operation_on_sent(void *request, ucs_status_t status, void *arg) {
  struct operation *o = arg;
  struct rondo_carrier *c = o->carrier;
  if (!c->is_closed)
    c->events->sent(c->arg, o->ticket, status_convert(status));
  operation_release(o);
  UCX(ucp_request_free)(request);
}

static int ucx_send(struct rondo_carrier *c, const struct rondo_carrier_message *m) {
  uint32_t at = m->to * ENDPOINTS + m->endpoint;
  struct endpoint *endpoint = at < c->endpoint_count ? c->answering[at] : NULL;
  if (!endpoint && at < c->endpoint_count)
    endpoint = c->outgoing[at];
  if (!endpoint || !endpoint->ep)
    return RONDO_ERR_PEER;
  struct operation *o = operation_alloc(c, m->ticket);
  if (!o)
    return RONDO_ERR_NO_MEMORY;
  ucp_request_param_t param = operation_param(o);
  param.cb.send = operation_on_sent;
  if (!endpoint->has_sent && c->process < m->to) {
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_REPLY;
  }
  endpoint->has_sent = 1;
  void *request = UCX(ucp_am_send_nbx)(endpoint->ep, MESSAGE_ID, m->head, m->head_bytes, m->payload,
                                       m->bytes, &param);
  if (request && !UCS_PTR_IS_ERR(request))
    return RONDO_SUCCESS;
  operation_release(o);
  if (request)
    return RONDO_ERR_PEER;
  c->events->sent(c->arg, m->ticket, RONDO_SUCCESS);
  return RONDO_SUCCESS;
}

// ---------------------------------------------------------------- connecting ---

static void endpoint_on_error(void *arg, ucp_ep_h ep, ucs_status_t status) {
  struct endpoint *endpoint = arg;
  struct rondo_carrier *c = endpoint->carrier;
  (void)ep;
  endpoint->is_broken = 1;
  if (!c->is_closed && endpoint->process != UNKNOWN_PROCESS)
    c->events->broken(c->arg, endpoint->process, UCX(ucs_status_string)(status));
}

// Makes the table larger. Returns 0 if there is no memory.
static int table_grow(struct endpoint ***table, uint32_t before, uint32_t count) {
  struct endpoint **grown = realloc(*table, count * sizeof(void *));
  if (!grown)
    return 0;
  memset(grown + before, 0, (count - before) * sizeof(void *));
  *table = grown;
  return 1;
}

static int endpoints_grow(struct rondo_carrier *c, uint32_t process) {
  if ((process + 1) * ENDPOINTS <= c->endpoint_count)
    return 1;
  uint32_t count = (process + 16) * ENDPOINTS;
  if (!table_grow(&c->outgoing, c->endpoint_count, count) ||
      !table_grow(&c->answering, c->endpoint_count, count))
    return 0;
  c->endpoint_count = count;
  return 1;
}

static struct endpoint *incoming_find(struct rondo_carrier *c, ucp_ep_h ep) {
  struct endpoint *endpoint = c->incoming;
  while (endpoint && endpoint->ep != ep)
    endpoint = endpoint->next;
  return endpoint;
}

// Remembers the connection on which the message has come, to send over it.
static void ucx_identify(struct rondo_carrier *c, uint32_t process) {
  struct endpoint *endpoint = c->arriving ? incoming_find(c, c->arriving) : NULL;
  if (process >= c->process || !endpoint || endpoint->process != UNKNOWN_PROCESS ||
      endpoint->is_broken || !endpoints_grow(c, process))
    return;
  for (uint32_t i = 0; i < ENDPOINTS; i++) {
    struct endpoint **at = &c->answering[process * ENDPOINTS + i];
    if (*at)
      continue;
    *at = endpoint;
    endpoint->process = process;
    return;
  }
}

// Combines the ports with the address of the machine. Returns 0 if they do not fit, or the peer has
// no port for that family.
static int address_read(const void *address, size_t bytes, struct ports *ports,
                        struct sockaddr_storage *to) {
  size_t at_bytes = bytes - sizeof *ports;
  if (bytes <= sizeof *ports || at_bytes > sizeof *to)
    return 0;
  memset(to, 0, sizeof *to);
  memcpy(ports, address, sizeof *ports);
  memcpy(to, (const char *)address + sizeof *ports, at_bytes);
  if (to->ss_family == AF_INET && at_bytes == sizeof(struct sockaddr_in))
    return (((struct sockaddr_in *)to)->sin_port = ports->ipv4) != 0;
  if (to->ss_family == AF_INET6 && at_bytes == sizeof(struct sockaddr_in6))
    return (((struct sockaddr_in6 *)to)->sin6_port = ports->ipv6) != 0;
  return 0;
}

static struct endpoint *endpoint_create(struct rondo_carrier *c, uint32_t process,
                                        ucp_ep_params_t *params) {
  struct endpoint *endpoint = calloc(1, sizeof *endpoint);
  if (!endpoint)
    return NULL;
  endpoint->carrier = c;
  endpoint->process = process;
  params->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params->err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params->err_handler.cb = endpoint_on_error;
  params->err_handler.arg = endpoint;
  if (UCX(ucp_ep_create)(c->worker, params, &endpoint->ep) == UCS_OK)
    return endpoint;
  free(endpoint);
  return NULL;
}

static int ucx_connect(struct rondo_carrier *c, uint32_t process, const void *address, size_t bytes,
                       uint32_t endpoints) {
  struct sockaddr_storage to;
  struct ports theirs;
  if (!endpoints_grow(c, process))
    return RONDO_ERR_NO_MEMORY;
  if (!address_read(address, bytes, &theirs, &to))
    return RONDO_ERR_PEER;
  // UCX sends over TCP in segments of its own receive size, and aborts a process that receives a
  // larger segment than its own size.
  if (memcmp(theirs.segment, c->ports.segment, sizeof theirs.segment) != 0) {
    c->events->broken(c->arg, process, "its " SEGMENT_VARIABLE " differs from the one here");
    return RONDO_ERR_PEER;
  }
  struct endpoint **outgoing = &c->outgoing[(size_t)process * ENDPOINTS];
  for (uint32_t i = 0; i < endpoints; i++) {
    if (outgoing[i])
      continue;
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS,
        .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
        .sockaddr = {(const struct sockaddr *)&to, (socklen_t)(bytes - sizeof theirs)}};
    outgoing[i] = endpoint_create(c, process, &params);
    if (!outgoing[i])
      return RONDO_ERR_PEER;
  }
  return RONDO_SUCCESS;
}

// Called inside UCX; requests_accept makes the endpoint later.
static void carrier_on_request(ucp_conn_request_h connection, void *arg) {
  struct rondo_carrier *c = arg;
  struct request *r = malloc(sizeof *r);
  if (!r) {
    (void)UCX(ucp_listener_reject)(c->listeners[0] ? c->listeners[0] : c->listeners[1], connection);
    return;
  }
  r->connection = connection;
  r->next = c->requests;
  c->requests = r;
}

static int requests_accept(struct rondo_carrier *c) {
  int moved = 0;
  while (c->requests) {
    struct request *r = c->requests;
    c->requests = r->next;
    moved = 1;
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST,
                              .conn_request = r->connection};
    struct endpoint *endpoint =
        c->incoming_count < INCOMING_MAX ? endpoint_create(c, UNKNOWN_PROCESS, &params) : NULL;
    if (endpoint) {
      endpoint->next = c->incoming;
      c->incoming = endpoint;
      c->incoming_count++;
    }
    free(r);
  }
  return moved;
}

static void endpoint_on_closed(void *request, ucs_status_t status, void *arg) {
  struct rondo_carrier *c = arg;
  (void)status;
  c->closing--;
  UCX(ucp_request_free)(request);
}

static void endpoint_close(struct rondo_carrier *c, struct endpoint *endpoint) {
  if (!endpoint->ep)
    return;
  ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS |
                                               UCP_OP_ATTR_FIELD_CALLBACK |
                                               UCP_OP_ATTR_FIELD_USER_DATA,
                               .flags = UCP_EP_CLOSE_FLAG_FORCE,
                               .cb.send = endpoint_on_closed,
                               .user_data = c};
  void *request = UCX(ucp_ep_close_nbx)(endpoint->ep, &param);
  endpoint->ep = NULL;
  c->closing += request && !UCS_PTR_IS_ERR(request);
}

// The struct stays, because UCX may still report errors of the endpoint.
static void ucx_disconnect(struct rondo_carrier *c, uint32_t process) {
  for (uint32_t i = process * ENDPOINTS; i < c->endpoint_count && i / ENDPOINTS == process; i++) {
    if (c->outgoing[i])
      endpoint_close(c, c->outgoing[i]);
    if (c->answering[i])
      endpoint_close(c, c->answering[i]);
  }
}

// ----------------------------------------------------------- progress, waiting ---

static int ucx_progress(struct rondo_carrier *c) {
  int moved = UCX(ucp_worker_progress)(c->worker) != 0;
  if (!c->requests)
    return moved;
  for (struct endpoint *incoming = c->incoming; incoming; incoming = incoming->next)
    if (incoming->is_broken)
      endpoint_close(c, incoming);
  return moved | requests_accept(c);
}

static int ucx_arm(struct rondo_carrier *c) { return UCX(ucp_worker_arm)(c->worker) == UCS_OK; }

static void ucx_sleep(struct rondo_carrier *c, uint64_t timeout_ns, int is_armed) {
  struct pollfd fds[] = {{c->wake_fd, POLLIN, 0}, {c->worker_fd, POLLIN, 0}};
  struct timespec timeout = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
  eventfd_t wakes;
  (void)ppoll(fds, is_armed ? 2 : 1, &timeout, NULL);
  if (fds[0].revents)
    (void)eventfd_read(c->wake_fd, &wakes);
}

static void ucx_wake(struct rondo_carrier *c) {
  (void)eventfd_write(c->wake_fd, 1); // fails only if the descriptor is readable already
}

// ------------------------------------------------------------ opening, closing ---

static const void *ucx_address(struct rondo_carrier *c, size_t *bytes) {
  *bytes = sizeof c->ports;
  return &c->ports;
}

static void endpoints_close(struct rondo_carrier *c) {
  const struct timespec pause = {0, CLOSE_PAUSE_NS};
  for (uint32_t i = 0; i < c->endpoint_count; i++)
    if (c->outgoing[i])
      endpoint_close(c, c->outgoing[i]);
  for (struct endpoint *endpoint = c->incoming; endpoint; endpoint = endpoint->next)
    endpoint_close(c, endpoint);
  for (uint32_t i = 0; c->closing && i < CLOSE_ROUNDS; i++)
    if (!UCX(ucp_worker_progress)(c->worker))
      nanosleep(&pause, NULL);
}

static void endpoints_free(struct rondo_carrier *c) {
  for (uint32_t i = 0; i < c->endpoint_count; i++)
    free(c->outgoing[i]);
  free(c->outgoing);
  free(c->answering);
  for (struct endpoint *endpoint; (endpoint = c->incoming);) {
    c->incoming = endpoint->next;
    free(endpoint);
  }
  for (struct operation *o; (o = c->idle);) {
    c->idle = o->next;
    free(o);
  }
}

static void ucx_close(struct rondo_carrier *c) {
  c->is_closed = 1;
  if (c->worker)
    (void)requests_accept(c);
  endpoints_close(c);
  for (int i = 0; i < 2; i++)
    if (c->listeners[i])
      UCX(ucp_listener_destroy)(c->listeners[i]);
  if (c->worker)
    UCX(ucp_worker_destroy)(c->worker);
  if (c->context)
    UCX(ucp_cleanup)(c->context);
  if (c->wake_fd >= 0)
    close(c->wake_fd);
  endpoints_free(c);
  free(c);
}

// Returns the port, in network order, or 0.
static uint16_t carrier_listen(struct rondo_carrier *c, const struct sockaddr *address,
                               socklen_t bytes, ucp_listener_h *listener) {
  ucp_listener_params_t params = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                  .sockaddr = {address, bytes},
                                  .conn_handler = {carrier_on_request, c}};
  ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
  if (UCX(ucp_listener_create)(c->worker, &params, listener) != UCS_OK) {
    *listener = NULL;
    return 0;
  }
  if (UCX(ucp_listener_query)(*listener, &attr) != UCS_OK)
    return 0;
  return attr.sockaddr.ss_family == AF_INET ? ((struct sockaddr_in *)&attr.sockaddr)->sin_port
                                            : ((struct sockaddr_in6 *)&attr.sockaddr)->sin6_port;
}

static ucs_status_t carrier_listen_all(struct rondo_carrier *c) {
  struct sockaddr_in ipv4 = {.sin_family = AF_INET};
  struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
  c->ports.ipv4 = carrier_listen(c, (struct sockaddr *)&ipv4, sizeof ipv4, &c->listeners[0]);
  c->ports.ipv6 = carrier_listen(c, (struct sockaddr *)&ipv6, sizeof ipv6, &c->listeners[1]);
  return c->ports.ipv4 || c->ports.ipv6 ? UCS_OK : UCS_ERR_NO_DEVICE;
}

// UCX warns about settings that no transport uses.
static bool may_use_tcp(void) {
  const char *kinds = getenv("UCX_TLS");
  return !kinds || kinds[0] == '^' || strstr(kinds, "tcp") || strstr(kinds, "all");
}

// All processes use the same size, whatever their devices: see ucx_connect.
static void config_choose_segment(ucp_config_t *config, char segment[SEGMENT_CHARS]) {
  const char *chosen = getenv(SEGMENT_VARIABLE);
  if (!chosen && may_use_tcp() &&
      UCX(ucp_config_modify)(config, "RX_SEG_SIZE", SEGMENT_BYTES) != UCS_OK)
    chosen = ""; // UCX may lack the setting
  (void)snprintf(segment, SEGMENT_CHARS, "%s", chosen ? chosen : SEGMENT_BYTES);
}

// Changes a setting unless the user's environment has it.
static ucs_status_t config_set(ucp_config_t *config, const char *variable, const char *setting,
                               const char *value) {
  return getenv(variable) ? UCS_OK : UCX(ucp_config_modify)(config, setting, value);
}

static bool address_is_same(const struct sockaddr *a, const struct sockaddr *b) {
  if (!a || !b || a->sa_family != b->sa_family)
    return false;
  if (a->sa_family == AF_INET)
    return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
           ((const struct sockaddr_in *)b)->sin_addr.s_addr;
  return a->sa_family == AF_INET6 &&
         memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

// Limits TCP to the interface with that address: UCX 1.13 uses two of them at once, and some jobs
// hang at their first messages. Leaves it at all interfaces if none here has the address.
static ucs_status_t config_choose_interface(ucp_config_t *config, const struct sockaddr *address) {
  struct ifaddrs *all = NULL;
  char name[IFNAMSIZ] = "";
  if (!address || getifaddrs(&all))
    return UCS_OK;
  for (const struct ifaddrs *i = all; i && !name[0]; i = i->ifa_next)
    if (address_is_same(i->ifa_addr, address))
      (void)snprintf(name, sizeof name, "%s", i->ifa_name);
  freeifaddrs(all);
  name[strcspn(name, ":")] = '\0'; // a second address may have a label, such as eth0:1
  return name[0] ? config_set(config, "UCX_NET_DEVICES", "NET_DEVICES", name) : UCS_OK;
}

// Shared memory of UCX is off: Rondo's own reaches the same processes, and a killed process leaves
// the files of UCX behind. Without RDMA devices, slots are copied rather than sent by rendezvous,
// which takes three trips over the network; and no memory is registered, so there is nothing to
// cache.
//
// A process that accepts a TCP connection connects back. By default UCX waits in that call, for
// minutes if the other machine was cut off meanwhile, and the round of the proxy waits with it.
static ucs_status_t config_read(struct rondo_carrier *c, const struct sockaddr *address,
                                ucp_config_t **config) {
  ucs_status_t status = UCX(ucp_config_read)(NULL, NULL, config);
  if (status == UCS_OK)
    status = config_set(*config, "UCX_TLS", "TLS", "^sm");
  if (status == UCS_OK && !has_rdma())
    status = config_set(*config, "UCX_RNDV_THRESH", "RNDV_THRESH", ASK_BYTES);
  if (status == UCS_OK && !has_rdma() && may_use_tcp())
    status = config_choose_interface(*config, address);
  if (status != UCS_OK)
    return status;
  if (!has_rdma())
    (void)config_set(*config, "UCX_RCACHE_ENABLE", "RCACHE_ENABLE", "n"); // UCX may lack it
  if (may_use_tcp())
    (void)config_set(*config, "UCX_TCP_CONN_NB", "CONN_NB", "y"); // UCX may lack it
  config_choose_segment(*config, c->ports.segment);
  return UCS_OK;
}

static ucs_status_t context_open(struct rondo_carrier *c, const struct sockaddr *address) {
  ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
                         .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                         .name = "rondo"};
  ucp_config_t *config = NULL;
  ucs_status_t status = config_read(c, address, &config);
  if (status == UCS_OK)
    status = UCX(ucp_init_version)(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &c->context);
  if (config)
    UCX(ucp_config_release)(config);
  return status;
}

static ucs_status_t worker_open(struct rondo_carrier *c, const struct sockaddr *address) {
  ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                .thread_mode = UCS_THREAD_MODE_SERIALIZED};
  ucp_am_handler_param_t handler = {
      .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                    UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
      .id = MESSAGE_ID,
      .flags = UCP_AM_FLAG_WHOLE_MSG,
      .cb = carrier_on_message,
      .arg = c};
  ucs_status_t status = context_open(c, address);
  if (status == UCS_OK)
    status = UCX(ucp_worker_create)(c->context, &worker, &c->worker);
  if (status == UCS_OK)
    status = UCX(ucp_worker_set_am_recv_handler)(c->worker, &handler);
  if (status == UCS_OK)
    status = UCX(ucp_worker_get_efd)(c->worker, &c->worker_fd);
  if (status == UCS_OK)
    status = carrier_listen_all(c);
  return status;
}

static int library_require(char *why, size_t why_bytes) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, library_load);
  if (!library.why[0])
    return RONDO_SUCCESS;
  (void)snprintf(why, why_bytes, "%s", library.why);
  return RONDO_ERR_UNSUPPORTED;
}

static int status_report(ucs_status_t status, char *why, size_t why_bytes) {
  (void)snprintf(why, why_bytes, "UCX does not start: %s", UCX(ucs_status_string)(status));
  return RONDO_ERR_SYSTEM;
}

static int ucx_open(const struct rondo_carrier_config *config, struct rondo_carrier **out,
                    char *why, size_t why_bytes) {
  int found = library_require(why, why_bytes);
  if (found != RONDO_SUCCESS)
    return found;
  struct rondo_carrier *c = calloc(1, sizeof *c);
  if (!c)
    return RONDO_ERR_NO_MEMORY;
  c->events = config->events;
  c->arg = config->arg;
  c->process = config->process;
  c->worker_fd = -1;
  c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  ucs_status_t status = c->wake_fd >= 0 ? worker_open(c, config->address) : UCS_ERR_IO_ERROR;
  if (status == UCS_OK) {
    *out = c;
    return RONDO_SUCCESS;
  }
  ucx_close(c);
  return status_report(status, why, why_bytes);
}

// --------------------------------------------------------------- describing ---

// Prints the transports that UCX may use. UCX lists them in lines such as
// "#  resource 2  :  md 1  dev 2  flags -- tcp/eth0".
static void transports_print(const struct rondo_carrier *c, FILE *out) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *info = open_memstream(&text, &bytes);
  if (!info)
    return;
  UCX(ucp_context_print_info)(c->context, info);
  (void)fclose(info);
  for (char *rest = text, *line = NULL; rest && (line = strsep(&rest, "\n"));) {
    const char *name = strstr(line, "resource") ? strstr(line, "-- ") : NULL;
    if (name && strncmp(name + 3, "self/", 5) != 0) // loopback, which the proxy does not need
      fprintf(out, "%s\n", name + 3);
  }
  free(text);
}

static int ucx_describe(FILE *out, char *why, size_t why_bytes) {
  struct rondo_carrier c = {.worker_fd = -1};
  int found = library_require(why, why_bytes);
  if (found != RONDO_SUCCESS)
    return found;
  ucs_status_t status = context_open(&c, NULL);
  if (status != UCS_OK)
    return status_report(status, why, why_bytes);
  fprintf(out, "UCX %s\n", UCX(ucp_get_version_string)());
  transports_print(&c, out);
  if (!has_rdma())
    fprintf(out, "no device for RDMA: there is no %s\n", RDMA_DEVICES);
  UCX(ucp_cleanup)(c.context);
  return RONDO_SUCCESS;
}

const struct rondo_carrier_calls rondo_ucx_carrier = {.name = "ucx",
                                                      .describe = ucx_describe,
                                                      .open = ucx_open,
                                                      .address = ucx_address,
                                                      .connect = ucx_connect,
                                                      .send = ucx_send,
                                                      .progress = ucx_progress,
                                                      .arm = ucx_arm,
                                                      .sleep = ucx_sleep,
                                                      .wake = ucx_wake,
                                                      .identify = ucx_identify,
                                                      .disconnect = ucx_disconnect,
                                                      .close = ucx_close};
