// The PTX that names source lines has the instructions of the PTX that ships, and the machine takes
// the text for each architecture: test_ptx_lines FATBIN LINES KERNEL
#include "tests/gpu/ptx_file.h"

static const char *fatbin_path, *lines_path, *kernel_name;

// The image has one text, for compute_80. GPUs of all these architectures get it.
static void every_architecture_gets_the_text(void **state) {
  static const uint32_t archs[] = {80, 90, 100, 120};
  (void)state;
  for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
    struct ptx_program *p = ptx_file_parse(fatbin_path, archs[i]);
    assert_non_null(ptx_program_kernel(p, kernel_name));
    ptx_program_destroy(p);
  }
}

static void lines_are_those_of_the_shipped_text(void **state) {
  (void)state;
  struct ptx_program *shipped = ptx_file_parse(fatbin_path, 90);
  struct ptx_program *lines = ptx_file_parse(lines_path, 90);
  const struct ptx_kernel *k = ptx_program_kernel(shipped, kernel_name);
  uint32_t known = 0;
  assert_int_equal(k->lines[k->count / 2].source, 0);
  assert_int_equal(ptx_program_take_lines(shipped, lines), 0);
  for (uint32_t n = 0; n < k->count; n++)
    known += k->lines[n].source && ptx_program_file(shipped, k->lines[n].file);
  assert_in_range(known, k->count / 10 * 9, k->count);
  ptx_program_destroy(lines);
  ptx_program_destroy(shipped);
}

// One instruction of the text with lines is another one.
static void other_instructions_are_refused(void **state) {
  (void)state;
  struct ptx_program *shipped = ptx_file_parse(fatbin_path, 90);
  struct ptx_program *lines = ptx_file_parse(lines_path, 90);
  const struct ptx_kernel *k = ptx_program_kernel(lines, kernel_name);
  k->code[k->count / 2].r[1] ^= 64;
  assert_int_equal(ptx_program_take_lines(shipped, lines), -1);
  assert_int_equal(ptx_program_kernel(shipped, kernel_name)->lines[0].source, 0);
  ptx_program_destroy(lines);
  ptx_program_destroy(shipped);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("ptx_lines", every_architecture_gets_the_text),
      RONDO_NAMED_TEST("ptx_lines", lines_are_those_of_the_shipped_text),
      RONDO_NAMED_TEST("ptx_lines", other_instructions_are_refused),
  };
  if (argc != 4)
    return 2;
  fatbin_path = argv[1];
  lines_path = argv[2];
  kernel_name = argv[3];
  return cmocka_run_group_tests_name("ptx_lines", tests, NULL, NULL);
}
