// The kernel that looks up members in a window of NCCL, on the PTX machine: test_ptx_lookup FATBIN
//
// The window is made by hand, in the layout that NCCL's device header gives it: the memory of
// member i begins i × stride4G × 4 GiB behind the memory of member 0. This test fails if a version
// of NCCL changes the layout.
#include <string.h>
#include <sys/mman.h>

#include "runtime/transport/nccl/window_lookup_core.h"
#include "tests/gpu/ptx_file.h"
#include "tests/support/ptx/ptx_machine.h"

#define MEMBERS 5u
#define STRIDE_4G 2u
#define STRIDE_BYTES (STRIDE_4G * (UINT64_C(4) << 30))
#define PAGE_BYTES 4096u
#define OFFSET_BYTES 640u // of the window in each member's memory

// The first fields of struct ncclWindow_vidmem (nccl_device/impl/core__types.h).
struct nccl_window {
  void *host;
  char *first; // the window of member 0
  int32_t lsa_rank, world_rank;
  uint32_t stride_4g;
  uint32_t others[64];
};

static const char *fatbin_path;
static char *memory;    // of member 0
static uint32_t mapped; // members from 0 on whose memory the kernel may read
static char accusation[512];

static void members_map(void) {
  memory = mmap(NULL, MEMBERS * STRIDE_BYTES, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_ptr_not_equal(memory, MAP_FAILED);
  for (uint32_t i = 0; i < MEMBERS; i++) {
    char *page = memory + i * STRIDE_BYTES;
    const uint64_t mark = UINT64_C(0x1122334400000000) + i;
    assert_int_equal(mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
    memcpy(page + OFFSET_BYTES, &mark, sizeof mark);
  }
}

static void members_unmap(void) { munmap(memory, MEMBERS * STRIDE_BYTES); }

static void on_accuse(void *arg, const char *line) {
  (void)arg;
  snprintf(accusation, sizeof accusation, "%s", line);
}

// All memory but that of members which are not mapped.
static bool on_find_span(void *arg, uint64_t address, struct ptx_span *span) {
  const uint64_t at = (uint64_t)(uintptr_t)memory, end = at + MEMBERS * STRIDE_BYTES;
  (void)arg;
  if (address < at)
    *span = (struct ptx_span){.begin = 0, .end = at, .is_writable = true};
  else if (address < end)
    *span = (struct ptx_span){.begin = at, .end = at + mapped * STRIDE_BYTES};
  else
    *span = (struct ptx_span){.begin = end, .end = UINT64_MAX, .is_writable = true};
  return address < span->end;
}

static enum ptx_state lookup_run(uint32_t arch, struct rondo_nccl_found *found) {
  static const uint32_t span_changes;
  struct nccl_window window = {.first = memory + OFFSET_BYTES, .lsa_rank = 1, .world_rank = 1};
  window.stride_4g = STRIDE_4G;
  const struct rondo_nccl_lookup lookup = {.window = (uint64_t)(uintptr_t)&window,
                                           .found = (uint64_t)(uintptr_t)found,
                                           .count = MEMBERS};
  const struct ptx_options options = {.accuse = on_accuse,
                                      .find_span = on_find_span,
                                      .span_changes = &span_changes,
                                      .is_checked = true,
                                      .idle_limit = 1000000};
  struct ptx_program *program = ptx_file_parse(fatbin_path, arch);
  const struct ptx_launch launch = {.program = program,
                                    .kernel = ptx_program_kernel(program, RONDO_NCCL_LOOKUP),
                                    .params = &lookup,
                                    .blocks = 1,
                                    .threads = 32,
                                    .options = &options};
  assert_non_null(launch.kernel);
  accusation[0] = '\0';
  const enum ptx_state state = ptx_launch_run_block(&launch, 0);
  ptx_program_destroy(program);
  return state;
}

// With the text that GPUs of these architectures get. The image has one, for compute_80.
static void each_member_is_found(void **state) {
  static const uint32_t archs[] = {80, 90, 100, 120};
  (void)state;
  mapped = MEMBERS;
  for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
    struct rondo_nccl_found found[MEMBERS];
    memset(found, 0xff, sizeof found);
    if (lookup_run(archs[a], found) != PTX_DONE)
      fail_msg("architecture %u: %s", archs[a], accusation);
    for (uint32_t i = 0; i < MEMBERS; i++) {
      assert_int_equal(found[i].address,
                       (uint64_t)(uintptr_t)memory + i * STRIDE_BYTES + OFFSET_BYTES);
      assert_int_equal(found[i].mark, UINT64_C(0x1122334400000000) + i);
    }
  }
}

static void memory_that_is_not_mapped_is_accused(void **state) {
  struct rondo_nccl_found found[MEMBERS];
  (void)state;
  mapped = MEMBERS - 1;
  assert_int_equal(lookup_run(90, found), PTX_FAILED);
  assert_non_null(strstr(accusation, RONDO_NCCL_LOOKUP));
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("ptx_lookup", each_member_is_found),
      RONDO_NAMED_TEST("ptx_lookup", memory_that_is_not_mapped_is_accused),
  };
  if (argc != 2)
    return 2;
  fatbin_path = argv[1];
  members_map();
  const int failed = cmocka_run_group_tests_name("ptx_lookup", tests, NULL, NULL);
  members_unmap();
  return failed;
}
