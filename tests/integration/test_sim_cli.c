// rondo-sim deadlock on the command line: what it prints, writes and returns.
// Usage: test_sim_cli PATH_OF_RONDO_SIM
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *program;
static char folder[64];
static char output[1 << 20];

// Runs `rondo-sim ARGS` through the shell, in the test's folder; keeps what it prints in `output`
// and returns its exit code.
__attribute__((format(printf, 1, 2))) static int sim(const char *format, ...) {
  char args[2048], command[4096];
  va_list ap;
  va_start(ap, format);
  vsnprintf(args, sizeof(args), format, ap);
  va_end(ap);
  snprintf(command, sizeof(command), "cd %s && %s %s 2>&1", folder, program, args);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  size_t n = fread(output, 1, sizeof(output) - 1, pipe);
  output[n] = 0;
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void write_file(const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  assert_true(fputs(text, f) >= 0);
  assert_int_equal(fclose(f), 0);
}

static char *read_back(const char *name) {
  char path[256];
  static char text[1 << 20];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  text[fread(text, 1, sizeof(text) - 1, f)] = 0;
  fclose(f);
  return text;
}

static void assert_prints(const char *part) {
  if (!strstr(output, part)) {
    fail_msg("\"%s\" is not in:\n%s", part, output);
  }
}

static void version_and_help_are_printed(void **state) {
  (void)state;
  assert_int_equal(sim("--version"), 0);
  assert_prints("rondo-sim ");
  assert_int_equal(sim("--help"), 0);
  assert_prints("deadlock");
  assert_int_equal(sim("deadlock --help"), 0);
  assert_prints("--sweep");
  assert_int_equal(sim("guess"), 64);
  assert_prints("unknown command \"guess\"");
}

static void wrong_options_are_refused(void **state) {
  (void)state;
  assert_int_equal(sim("deadlock --model fifo"), 64);
  assert_prints("model: \"fifo\" is not one of single-queue");
  assert_int_equal(sim("deadlock --preset table2"), 64);
  assert_int_equal(sim("deadlock --preset table1 --rows z9"), 64);
  assert_prints("\"z9\" is not a row of table1");
  assert_int_equal(sim("deadlock --preset table1 -d 0.5"), 64);
  assert_prints("disorder: the rows of a preset have their own");
  assert_int_equal(sim("deadlock --preset table1 --3d 2,2,2"), 64);
  assert_int_equal(sim("deadlock --sweep colour=1..2"), 64);
  assert_int_equal(sim("deadlock --variant best"), 64);
}

static void bad_file_is_named_with_key_and_line(void **state) {
  (void)state;
  write_file("bad.json", "{\n  \"model\": \"single-queue\",\n  \"disorder\": 2\n}\n");
  assert_int_equal(sim("deadlock bad.json"), 65);
  assert_prints("bad.json:3: disorder: \"2\" is not a probability from 0 to 1");
  assert_int_equal(sim("deadlock nothing.json"), 65);
  assert_prints("nothing.json: No such file or directory");
}

static void files_come_from_the_standard_input_too(void **state) {
  (void)state;
  assert_int_equal(sim("deadlock -n 10 - <<'X'\n{\"disorder\": 0}\nX\n"), 0);
  assert_prints("0.00 %");
}

// The number at a path of the JSON output, such as variants.interleaved.deadlocks of row `row`.
static double number_of(const json_t *root, size_t row, const char *variant, const char *key) {
  const json_t *r = json_array_get(json_object_get(root, "rows"), row);
  const json_t *v = json_object_get(json_object_get(r, "variants"), variant);
  const json_t *n = json_object_get(v, key);
  assert_true(json_is_number(n));
  return json_number_value(n);
}

static json_t *parsed_output(void) {
  json_error_t error;
  json_t *root = json_loads(output, 0, &error);
  if (!root) {
    fail_msg("%s in:\n%s", error.text, output);
  }
  return root;
}

static void results_do_not_depend_on_threads(void **state) {
  (void)state;
  double deadlocks[3][3];
  static const char *const variants[] = {"interleaved", "sequential", "dfccl"};
  for (int threads = 1; threads <= 3; threads++) {
    assert_int_equal(sim("deadlock --preset table1 --rows s2,y2 -n 400 -t %d --json -", threads),
                     0);
    json_t *root = parsed_output();
    for (size_t v = 0; v < 3; v++) {
      deadlocks[threads - 1][v] = number_of(root, 0, variants[v], "deadlocks") * 1000 +
                                  number_of(root, 1, variants[v], "deadlocks");
    }
    json_decref(root);
  }
  assert_memory_equal(deadlocks[0], deadlocks[1], sizeof(deadlocks[0]));
  assert_memory_equal(deadlocks[0], deadlocks[2], sizeof(deadlocks[0]));
  assert_true(deadlocks[0][0] > 0);
}

static void published_file_gives_both_ratios(void **state) {
  (void)state;
  write_file("published.json",
             "{\"total_rounds\": 100, \"fix_seed\": 1, \"disorder_prob\": 0.1, \"sync_prob\": 0.1, "
             "\"model\": \"StreamWithSync\", \"grouping_policy\": \"Megatron\", "
             "\"tp_group_size\": 2, \"dp_group_size\": 2, \"pp_group_size\": 2, "
             "\"coll_cnt_per_tp_group\": 10, \"coll_cnt_per_dp_group\": 10, \"num_process\": 2}");
  assert_int_equal(sim("deadlock published.json --json -"), 0);
  json_t *root = parsed_output();
  // The published program prints 8 of 200 for this file.
  assert_true(number_of(root, 0, "dfccl", "deadlocks") == 8);
  assert_true(number_of(root, 0, "dfccl", "rounds") == 200);
  assert_true(number_of(root, 0, "interleaved", "rounds") == 200);
  json_decref(root);
}

static void engines_agree_within_their_intervals(void **state) {
  (void)state;
  static const char *const engines[] = {"fast", "naive"};
  double low[2], high[2];
  for (int k = 0; k < 2; k++) {
    assert_int_equal(sim("deadlock --3d 2,2,1 --collectives 10,20 -d 0.002 -n 4000 --engine %s "
                         "--turns random --compat dfccl --json -",
                         engines[k]),
                     0);
    json_t *root = parsed_output();
    low[k] = number_of(root, 0, "interleaved", "low95") + number_of(root, 0, "dfccl", "low95");
    high[k] = number_of(root, 0, "interleaved", "high95") + number_of(root, 0, "dfccl", "high95");
    json_decref(root);
  }
  assert_true(low[0] > 0.05 && low[0] < high[1] && low[1] < high[0]);
}

static void a_deadlock_is_explained(void **state) {
  (void)state;
  assert_int_equal(sim("deadlock -d 0.01 -n 50 --explain=story"), 0);
  assert_prints("but cannot execute it (it has a single queue)");
  assert_prints("written: story.svg");
  assert_non_null(strstr(read_back("story.dot"), "digraph"));
  assert_non_null(strstr(read_back("story.svg"), "</svg>"));
  assert_int_equal(sim("deadlock -d 0 -n 50 --explain"), 0);
  assert_prints("No deadlock was found");
}

static void limited_room_is_explained(void **state) {
  (void)state;
  assert_int_equal(
      sim("deadlock --model resource-limited --resources 2 -d 0.3 -n 20 --explain=room"), 0);
  assert_prints("but cannot execute it (no room is left)");
}

// A page that loads nothing: no script, no style sheet, no picture from elsewhere.
static void reports_are_written_in_every_form(void **state) {
  (void)state;
  assert_int_equal(
      sim("deadlock --sweep disorder=1e-4..1e-2:log:3 -n 200 --html r.html --csv r.csv "
          "--json r.json"),
      0);
  const char *page = read_back("r.html");
  assert_non_null(strstr(page, "<table>"));
  assert_non_null(strstr(page, "Deadlock ratio against disorder"));
  assert_non_null(strstr(page, "the cycle of waits"));
  assert_null(strstr(page, "<script"));
  assert_null(strstr(page, "src="));
  assert_null(strstr(page, "href="));
  const char *csv = read_back("r.csv");
  int lines = 0;
  for (const char *at = csv; (at = strstr(at, "\r\n")); at++) {
    lines++;
  }
  assert_int_equal(lines, 4);
  assert_non_null(strstr(read_back("r.json"), "\"swept_disorder\": 0.001"));
  assert_int_equal(sim("deadlock -n 10 --csv /nothing/there.csv"), 73);
}

// A row written for the published simulator and read back is the same row.
static void exported_rows_come_back_the_same(void **state) {
  (void)state;
  double ratios[2];
  assert_int_equal(sim("deadlock --preset table1 --rows y9 --draws 1 -n 2000 --export out"), 0);
  assert_prints("written: out-y9.json");
  assert_int_equal(sim("deadlock out-y9.json --json -"), 0);
  for (int k = 0; k < 2; k++) {
    json_t *root = parsed_output();
    ratios[k] = number_of(root, 0, "dfccl", "deadlocks");
    assert_true(number_of(root, 0, "dfccl", "rounds") == 2000);
    json_decref(root);
    assert_int_equal(sim("deadlock --preset table1 --rows y9 --draws 1 -n 2000 --json -"), 0);
  }
  assert_true(ratios[0] == ratios[1] && ratios[0] > 0);
  assert_int_equal(sim("deadlock --preset table1 --rows y9 --order sequential --export out"), 73);
}

// Interrupted once it has said that rounds are done: prints what is known and leaves with 130.
static void interrupting_prints_what_is_known(void **state) {
  (void)state;
  int out[2], err[2], status;
  char said[512];
  assert_int_equal(pipe(out), 0);
  assert_int_equal(pipe(err), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    close(out[0]);
    close(err[0]);
    execl(program, program, "deadlock", "--preset", "table1", "--rows", "y2", "-n", "1000000000",
          "--progress", (char *)NULL);
    _exit(127);
  }
  close(out[1]);
  close(err[1]);
  do {
    ssize_t n = read(err[0], said, sizeof(said) - 1);
    assert_true(n > 0);
    said[n] = 0;
  } while (!strstr(said, "rounds/s"));
  assert_int_equal(kill(child, SIGINT), 0);
  size_t used = 0;
  for (ssize_t n; (n = read(out[0], output + used, sizeof(output) - 1 - used)) > 0;) {
    used += (size_t)n;
  }
  output[used] = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 130);
  assert_prints("Interrupted; this is what was known by then.");
  assert_prints("of 1000000000 rounds were run");
  close(out[0]);
  close(err[0]);
}

static void a_hundred_thousand_gpus_fit(void **state) {
  (void)state;
  assert_int_equal(sim("deadlock --3d 8,20,625 -d 1e-9 -n 50 --variant interleaved,sequential"), 0);
  assert_prints("3D 8,20,625");
}

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof(folder), "/tmp/rondo-sim-%ld", (long)getpid());
  return mkdir(folder, 0700);
}

static int remove_folder(void **state) {
  (void)state;
  char command[96];
  snprintf(command, sizeof(command), "rm -r %s", folder);
  return system(command);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(version_and_help_are_printed),
      cmocka_unit_test(wrong_options_are_refused),
      cmocka_unit_test(bad_file_is_named_with_key_and_line),
      cmocka_unit_test(files_come_from_the_standard_input_too),
      cmocka_unit_test(results_do_not_depend_on_threads),
      cmocka_unit_test(published_file_gives_both_ratios),
      cmocka_unit_test(engines_agree_within_their_intervals),
      cmocka_unit_test(a_deadlock_is_explained),
      cmocka_unit_test(limited_room_is_explained),
      cmocka_unit_test(reports_are_written_in_every_form),
      cmocka_unit_test(exported_rows_come_back_the_same),
      cmocka_unit_test(interrupting_prints_what_is_known),
      cmocka_unit_test(a_hundred_thousand_gpus_fit),
  };
  if (argc != 2) {
    fprintf(stderr, "usage: test_sim_cli PATH_OF_RONDO_SIM\n");
    return 2;
  }
  program = argv[1];
  return cmocka_run_group_tests_name("sim.cli", tests, make_folder, remove_folder);
}
