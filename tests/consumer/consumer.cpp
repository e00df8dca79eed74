// A user of the installed library who writes C++: a job of one rank, with a callback.
#include <rondo/rondo.h>

#include <cstdio>
#include <future>
#include <vector>

namespace {

void on_end(void *arg, int status) { static_cast<std::promise<int> *>(arg)->set_value(status); }

bool ok(int status, const char *what) {
  if (status != RONDO_SUCCESS)
    std::fprintf(stderr, "%s: %s\n", what, rondo_status_string(status));
  return status == RONDO_SUCCESS;
}

bool broadcast(rondo_context ctx) {
  std::vector<int32_t> send(1000, 42), recv(1000, 0);
  rondo_collective_desc desc = rondo_broadcast(1, send.size(), RONDO_INT32, 0);
  rondo_collective coll;
  std::promise<int> ended;
  if (!ok(rondo_register(ctx, &desc, &coll), "rondo_register") ||
      !ok(rondo_run(ctx, coll, send.data(), recv.data(), on_end, &ended), "rondo_run"))
    return false;
  return ok(ended.get_future().get(), "the run") && recv == send;
}

} // namespace

int main() {
  rondo_config cfg = RONDO_CONFIG_INIT;
  rondo_context ctx;
  if (!ok(rondo_init(&ctx, &cfg), "rondo_init"))
    return 1;
  bool right = broadcast(ctx);
  return ok(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, RONDO_FOREVER), "rondo_destroy") && right ? 0
                                                                                              : 1;
}
