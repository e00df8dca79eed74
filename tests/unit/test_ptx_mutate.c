// Mutations of a PTX text: instructions are chosen by the label of their source line.
#include "tests/support/ptx/ptx_mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/named.h"

static char folder[] = "/tmp/rondo-ptx-mutate-XXXXXX";
static char text[2000];

static void file_write(const char *path, const char *content) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(content, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static int set_up(void **state) {
  char path[100];
  (void)state;
  if (!mkdtemp(folder))
    return -1;
  snprintf(path, sizeof path, "%s/a.h", folder);
  file_write(path, "load(x); // C2\n"
                   "load(y); // C22, not that one\n"
                   "plain C2;\n"
                   "store(x); // C1 (and Q7)");
  snprintf(text, sizeof text,
           "\tld.acquire.sys.b32 \t%%r0, [%%rd0];\n"
           "\t.loc\t1 1 3\n"
           "\tld.acquire.sys.b32 \t%%r1, [%%rd1];\n"
           "@%%p1\tld.acquire.sys.b32 \t%%r2, [%%rd1];\n"
           "\tadd.s32 \t%%r1, %%r1, 1;\n"
           "\t.loc\t1 2 3\n"
           "\tld.acquire.sys.b32 \t%%r3, [%%rd1];\n"
           "\t.loc\t1 3 3\n"
           "\tld.acquire.sys.b32 \t%%r4, [%%rd1];\n"
           "\t.loc\t2 9 9, function_name $L__info_string3, inlined_at 1 4 5\n"
           "\tfence.sc.sys;\n"
           "\tst.release.sys.b32 \t[%%rd1], %%r4;\n"
           "\t.loc\t1 4 3, function_name $L__info_string3, inlined_at 1 1 5\n"
           "\tst.release.sys.b64 \t[%%rd1], %%rd4;\n"
           "\t.loc\t3 1 1\n"
           "\tst.release.sys.b64 \t[%%rd2], %%rd4;\n"
           "\t.loc\t4 114 3, function_name $L__info_string3, inlined_at 1 1 5\n"
           "\tbarrier.cta.sync 1, %%r3;\n"
           "\t.file\t1 \"%s/a.h\"\n"
           "\t.file\t2 \"%s/base/atomic_cuda.h\"\n"
           "\t.file\t3 \"%s/missing.h\"\n"
           "\t.file\t4 \"%s/daemon/cuda/kernel.cu\"\n",
           folder, folder, folder, folder);
  return 0;
}

static int tear_down(void **state) {
  char path[100];
  (void)state;
  snprintf(path, sizeof path, "%s/a.h", folder);
  return unlink(path) || rmdir(folder);
}

struct expected {
  struct ptx_mutation mutation;
  uint32_t changed;
  const char *has;     // the result has it
  const char *has_not; // the result does not, though the text may; null: nothing
};

static const struct expected table[] = {
    {{"C2", "ld.acquire", ".acquire", ".relaxed", 0}, 2, "@%p1\tld.relaxed.sys.b32", NULL},
    {{"C2", "ld.acquire", ".acquire", ".relaxed", 1}, 1, "@%p1\tld.acquire.sys.b32", NULL},
    {{"C2", "ld.acquire", ".acquire", ".relaxed", 2}, 1, "@%p1\tld.relaxed.sys.b32", NULL},
    {{"C2", "ld.acquire", ".acquire", ".relaxed", 3}, 0, "\tld.acquire.sys.b32 \t%r1", NULL},
    {{"C22", "ld", "%rd1", "%rd1+4", 0}, 1, "%r3, [%rd1+4];", NULL},
    {{"C1", "fence", "fence", NULL, 0}, 1, "st.release.sys.b32", "fence"},
    {{"Q7", "st.release", ".release", ".relaxed", 0},
     2,
     "st.relaxed.sys.b64",
     "b32 \t[%rd1], %r4, "},
    {{"C1", "ld", "ld", NULL, 0}, 0, "fence", NULL},
    {{"C9", "ld", "ld", NULL, 0}, 0, "fence", NULL},
    {{"C2", "barrier", "barrier", NULL, 0}, 1, "fence", "barrier"},
    {{NULL, "ld.acquire", "ld", NULL, 0}, 5, "add.s32", "ld.acquire"},
    {{NULL, "st.release.sys.b64", ".sys", ".gpu", 0}, 2, "st.release.gpu.b64 \t[%rd2]", ".sys.b64"},
};

static void chooses_instructions_by_the_label_of_their_line(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    uint32_t changed = 0;
    char *result = ptx_mutate(text, &table[i].mutation, &changed);
    assert_int_equal(changed, table[i].changed);
    assert_non_null(strstr(result, table[i].has));
    assert_true(!table[i].has_not || !strstr(result, table[i].has_not));
    if (!changed)
      assert_string_equal(result, text);
    free(result);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("ptx_mutate", chooses_instructions_by_the_label_of_their_line),
  };
  return cmocka_run_group_tests_name("ptx_mutate", tests, set_up, tear_down);
}
