// rondo-sim analyse as a person calls it, on small files in the shapes of real hangs: the verdict,
// the words that matter, the exit code and the three forms of the report.
// Usage: test_analyse_cli PATH_OF_RONDO_SIM FOLDER_OF_FIXTURES
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *program, *fixtures;
static char folder[] = "/tmp/rondo-analyse-XXXXXX";
static char output[1 << 20];

// Runs `rondo-sim analyse ARGS` through the shell, in the folder of the fixtures; keeps what it
// prints, errors too, in `output` and returns its exit code.
__attribute__((format(printf, 1, 2))) static int analyse(const char *format, ...) {
  char args[2048], command[4096];
  va_list ap;
  va_start(ap, format);
  vsnprintf(args, sizeof args, format, ap);
  va_end(ap);
  snprintf(command, sizeof command, "cd %s && %s analyse %s 2>&1", fixtures, program, args);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  size_t n = fread(output, 1, sizeof output - 1, pipe);
  output[n] = 0;
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Line breaks and margins out, so that words are found wherever they were wrapped.
static void unwrap(char *text) {
  char *out = text;
  for (char *p = text; *p; p++) {
    bool space = *p == ' ' || *p == '\n';
    if (!space || (out > text && out[-1] != ' ')) {
      *out++ = space ? ' ' : *p;
    }
  }
  *out = 0;
}

static void assert_says(const char *part) {
  if (!strstr(output, part)) {
    fail_msg("\"%s\" is not in:\n%s", part, output);
  }
}

static char *file_text(const char *name) {
  static char text[1 << 20];
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  return text;
}

// Each case: its files, the exit code, and words that the report must hold.
static const struct {
  const char *args;
  int code;
  const char *says[4];
} cases[] = {
    {"swap-blocking/*",
     10,
     {"rank 0 is in all_reduce number 1 in group \"tp\"", "called at train.py:42 in forward",
      "waits for rank 1 there: it has not called it",
      "Up to and including all_reduce number 3 in group \"0\""}},
    {"swap-async/*", 10, {"the device has not started it while another call runs"}},
    {"swap-starts-unknown/*", 10, {"How sure: likely", "only after another call"}},
    {"weight-transfer/*",
     10,
     {"broadcast number 2 in group \"weights\"", "grpo_trainer.py:310 in sync_weights",
      "rank 4 is in all_reduce number 2 in group \"0\""}},
    {"triangle/*", 10, {"between 3 ranks"}},
    {"rings-differ/*", 10, {"Up to and including all_reduce number 509"}},
    {"receive-receive/*", 10, {"recv from its member 1", "let one side send first"}},
    {"mixed-formats/*", 10, {"waits for rank 1 there", "2 PyTorch Flight Recorder, 1 Kineto"}},
    {"nccl-one-stream/*",
     10,
     {"behind an earlier call on the same stream", "How sure: certain", "on stream 0x6c0"}},
    {"rank-never-came/*",
     11,
     {"rank 3 did not call all_reduce number 3", "ranks 0-2 wait in",
      "The last that rank 3 completed was all_reduce number 2", "called at train.py:30"}},
    {"chain/*", 11, {"rank 2 did not call all_reduce number 2 in group \"b\""}},
    {"numbers-restart/*", 11, {"rank 1 did not call all_reduce number 3"}},
    {"kineto-behind/*", 11, {"rank 1 did not call all_reduce number 3"}},
    {"nccl-behind/*", 11, {"rank 1 did not call all_reduce number 5 in group \"0x1234\""}},
    {"ras-behind/*", 11, {"rank 2 (host 10.0.0.3, pid 102, GPU 0) has begun 41"}},
    {"ras-no-answer/*", 11, {"rank 2 (host 10.0.0.3, pid 102, GPU 0) does not answer"}},
    {"rondo-record/*", 11, {"rank 1 (host n1, pid 51) has not called it"}},
    // A send-recv is a collective of two ranks here; ids need all of their 64 bits.
    {"rondo-kinds/*",
     11,
     {"rank 0 (host n0, pid 50) has not called it", "rank 2 waits in send_recv"}},
    {"size-mismatch/*",
     12,
     {"differs in size", "ranks 0, 1, 3: all_reduce, 1024 float32", "rank 2: all_reduce, 1000"}},
    {"extra-call/*", 12, {"differs in operation", "train.py:12", "train.py:13"}},
    {"nccl-type-mismatch/*",
     12,
     {"differs in type, reduction", "rank 2: all_reduce, 1024 bfloat16"}},
    {"consistent-stuck/*",
     13,
     {"NOT AN ORDERING DEADLOCK", "How sure: certain", "Xid", "Every member of the group"}},
    {"nccl-consistent/*", 13, {"The files record calls, not completion"}},
    {"ras-even/*", 13, {"Counts do not show an order"}},
    {"file-missing/*", 14, {"Missing: the files of rank 2", "ranks 0, 1, 3 wait in"}},
    {"cut-off/*", 14, {"nccl_trace_rank_1.json:1: byte ", "(cut off?)", "files of rank 1 are cut"}},
    {"nothing-waits/*", 0, {"NOTHING WAITS"}},
    {"batch-completed/*", 0, {"NOTHING WAITS"}},
    {"hostile/*", 65, {"pickle instruction GLOBAL (0x63) is not plain data, and is not executed"}},
    {"pytorch-2.15/swap/*", 10, {"hang.py", "This takes all ranks to be members of"}},
    {"pytorch-2.15/absent/*", 11, {"rank 2 did not call all_reduce number 4 in group \"0\""}},
    {"pytorch-2.15/skip/*", 12, {"rank 0: broadcast, 16 float32", "ranks 1, 2: all_reduce"}},
    {"pytorch-2.15/done/trace*", 0, {"NOTHING WAITS"}},
    {"pytorch-2.15/done/kineto*", 14, {"no record_param_comms event is in this trace"}},
};

static void each_known_shape_gets_its_verdict(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int code = analyse("%s", cases[i].args);
    unwrap(output);
    if (code != cases[i].code) {
      fail_msg("%s: exit code %d, not %d:\n%s", cases[i].args, code, cases[i].code, output);
    }
    for (int k = 0; k < 4 && cases[i].says[k]; k++) {
      assert_says(cases[i].says[k]);
    }
  }
}

static void nothing_in_a_pickle_is_executed(void **state) {
  (void)state;
  analyse("hostile/*");
  assert_null(strstr(output, "\nexecuted"));
}

static void json_says_the_same_as_the_text(void **state) {
  static const char *const names[] = {
      [0] = "nothing_waits", [10] = "circular_wait", [11] = "rank_never_came",
      [12] = "mismatch",     [13] = "no_cycle",      [14] = "cannot_tell"};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (cases[i].code == 65) {
      continue;
    }
    json_error_t error;
    assert_int_equal(analyse("--quiet --json %s", cases[i].args), cases[i].code);
    json_t *root = json_loads(output, 0, &error);
    if (!root) {
      fail_msg("%s: %s in:\n%s", cases[i].args, error.text, output);
    }
    assert_string_equal(json_string_value(json_object_get(root, "verdict")), names[cases[i].code]);
    assert_int_equal(json_integer_value(json_object_get(root, "exit_code")), cases[i].code);
    json_decref(root);
  }
}

static void json_names_the_ranks_and_calls_of_a_cycle(void **state) {
  (void)state;
  analyse("--json swap-blocking/*");
  json_t *root = json_loads(output, 0, NULL);
  assert_non_null(root);
  json_t *one = json_array_get(json_object_get(root, "analyses"), 0);
  json_t *cycle = json_object_get(one, "cycle");
  assert_int_equal(json_array_size(cycle), 2);
  json_t *turn = json_array_get(cycle, 0);
  json_t *call = json_object_get(turn, "call");
  assert_string_equal(json_string_value(json_object_get(turn, "because")), "not_called");
  assert_string_equal(json_string_value(json_object_get(call, "operation")), "all_reduce");
  assert_int_equal(json_array_size(json_object_get(one, "rank_states")), 2);
  assert_int_equal(json_array_size(json_object_get(one, "first_divergence")), 2);
  json_decref(root);
}

static void members_can_be_said_on_the_command_line(void **state) {
  (void)state;
  assert_int_equal(analyse("--group 2=0-1 --group 1=0-1 pytorch-2.15/swap/*"), 10);
  unwrap(output);
  assert_null(strstr(output, "This takes all ranks"));
  assert_int_equal(analyse("--group 2 pytorch-2.15/swap/*"), 64);
  assert_says("not NAME=RANKS");
  assert_int_equal(analyse("--group 2=1-0 pytorch-2.15/swap/*"), 64);
  assert_int_equal(analyse("--group 2=0,,1 pytorch-2.15/swap/*"), 64);
  assert_int_equal(analyse("--group 2=0-99999999999 pytorch-2.15/swap/*"), 64);
  assert_int_equal(analyse("--group nowhere=0-1 pytorch-2.15/swap/*"), 10);
  assert_says("--group nowhere: no file has a group of that name");
}

static void rank_pattern_reads_other_names(void **state) {
  (void)state;
  snprintf(output, sizeof output,
           "cp %s/swap-blocking/nccl_trace_rank_0 %s/job7-worker0of2 && "
           "cp %s/swap-blocking/nccl_trace_rank_1 %s/job7-worker1of2",
           fixtures, folder, fixtures, folder);
  assert_int_equal(system(output), 0);
  assert_int_equal(analyse("%s/job7-*", folder), 14); // both end in 2
  assert_says("was already read from");
  assert_int_equal(analyse("-r 'worker([0-9]+)' %s/job7-*", folder), 10);
  assert_int_equal(analyse("-r 'worker[' %s/job7-*", folder), 64);
  assert_int_equal(analyse("-r 'worker' %s/job7-*", folder), 64);
  assert_says("has no group");
}

static void drawings_are_written_where_there_is_a_cycle(void **state) {
  (void)state;
  assert_int_equal(
      analyse("--html %s/r.html --svg %s/c.svg --dot %s/c.dot triangle/*", folder, folder, folder),
      10);
  char *html = file_text("r.html");
  assert_non_null(strstr(html, "<h2>The cycle</h2>"));
  assert_non_null(strstr(html, "rank 2"));
  assert_null(strstr(html, "src="));
  assert_null(strstr(html, "href="));
  assert_non_null(strstr(file_text("c.svg"), "<svg"));
  assert_non_null(strstr(file_text("c.dot"), "digraph"));
  assert_int_equal(analyse("--html %s/r.html consistent-stuck/*", folder), 13);
  assert_null(strstr(file_text("r.html"), "The cycle"));
  assert_int_equal(analyse("--html /nonexistent/r.html triangle/*"), 73);
  assert_says("/nonexistent/r.html: cannot be written");
}

static void bad_files_are_named_and_the_rest_goes_on(void **state) {
  (void)state;
  snprintf(
      output, sizeof output,
      "cd %s && : > empty_rank_8 && echo hello > text_rank_9 && echo '{\"a\":1}' > j_rank_7 && "
      "printf '\\037\\213\\010' > z_rank_6",
      folder);
  assert_int_equal(system(output), 0);
  assert_int_equal(analyse("swap-blocking/* %s/empty_rank_8 %s/text_rank_9 %s/j_rank_7 "
                           "%s/z_rank_6 %s/none_rank_5",
                           folder, folder, folder, folder, folder),
                   10);
  assert_says("empty_rank_8: byte 0: is empty");
  assert_says("text_rank_9: byte 0: is of no known kind");
  assert_says("j_rank_7: byte 0: is JSON of no known kind");
  assert_says("z_rank_6: byte 0: is compressed with gzip");
  assert_says("none_rank_5: byte 0: cannot be opened: No such file");
  assert_says("5 unusable");
  assert_int_equal(analyse("%s/text_rank_9", folder), 65);
  assert_int_equal(analyse("--threads 0 swap-blocking/*"), 64);
  assert_int_equal(analyse(" "), 64);
}

static void an_unknown_version_is_read_and_said(void **state) {
  (void)state;
  snprintf(output, sizeof output,
           "sed 's/\"version\":\"2.10\"/\"version\":\"3.1\"/' %s/nothing-waits/"
           "nccl_trace_rank_0.json > %s/new_rank_0.json",
           fixtures, folder);
  assert_int_equal(system(output), 0);
  assert_int_equal(analyse("%s/new_rank_0.json nothing-waits/*1.json", folder), 0);
  assert_says("has Flight Recorder version 3.1");
}

// Two sorts of evidence on one job are judged on their own, and the weightier verdict leads.
static void families_are_judged_apart(void **state) {
  (void)state;
  assert_int_equal(analyse("consistent-stuck/* nccl-behind/*"), 11);
  assert_says("Also, judged on its own");
}

static int folder_make(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int folder_remove(void **state) {
  (void)state;
  char command[100];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_known_shape_gets_its_verdict),
      cmocka_unit_test(nothing_in_a_pickle_is_executed),
      cmocka_unit_test(json_says_the_same_as_the_text),
      cmocka_unit_test(json_names_the_ranks_and_calls_of_a_cycle),
      cmocka_unit_test(members_can_be_said_on_the_command_line),
      cmocka_unit_test(rank_pattern_reads_other_names),
      cmocka_unit_test(drawings_are_written_where_there_is_a_cycle),
      cmocka_unit_test(bad_files_are_named_and_the_rest_goes_on),
      cmocka_unit_test(an_unknown_version_is_read_and_said),
      cmocka_unit_test(families_are_judged_apart),
  };
  if (argc < 3) {
    fprintf(stderr, "usage: %s PATH_OF_RONDO_SIM FOLDER_OF_FIXTURES\n", argv[0]);
    return 64;
  }
  program = argv[1];
  fixtures = argv[2];
  return cmocka_run_group_tests_name("analyse_cli", tests, folder_make, folder_remove);
}
