// Runs a fuzz target without a fuzzer: once for every file named, or in a folder named, on the
// command line, then for random inputs. Their seed is fixed, so the test does the same every time.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/support/fuzz.h"
#include "tests/support/load.h"

#define MAX_INPUT_BYTES 4096u
#define RANDOM_INPUT_BYTES 64u

static void replay_file(const char *path) {
  uint8_t data[MAX_INPUT_BYTES];
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    exit(1);
  }
  size_t size = fread(data, 1, sizeof data, file);
  fclose(file);
  printf("%s: %zu bytes\n", path, size);
  LLVMFuzzerTestOneInput(data, size);
}

static void replay_folder(const char *path) {
  struct dirent **entries;
  int count = scandir(path, &entries, NULL, alphasort);
  if (count < 0) {
    perror(path);
    exit(1);
  }
  for (int i = 0; i < count; i++) {
    char name[4096];
    snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
    if (entries[i]->d_name[0] != '.')
      replay_file(name);
    free(entries[i]);
  }
  free(entries);
}

static uint64_t random_next(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void replay_random(uint64_t count) {
  uint64_t state = 88172645463325252u;
  for (uint64_t i = 0; i < count; i++) {
    uint8_t data[RANDOM_INPUT_BYTES];
    size_t size = random_next(&state) % (sizeof data + 1);
    for (size_t k = 0; k < size; k++)
      data[k] = (uint8_t)(random_next(&state) >> 32);
    LLVMFuzzerTestOneInput(data, size);
  }
  printf("%llu random inputs\n", (unsigned long long)count);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    struct stat info;
    if (stat(argv[i], &info) == 0 && S_ISDIR(info.st_mode))
      replay_folder(argv[i]);
    else
      replay_file(argv[i]);
  }
  replay_random(rondo_test_load(20000, 2000));
  return 0;
}
