// Reads what a user types: the options of a command line, sizes, numbers in a range, and names of
// types, reductions, collectives and policies. Every reader returns false, and leaves the output
// alone, for text that it does not understand.
#ifndef RONDO_TOOLS_KIT_OPTIONS_H
#define RONDO_TOOLS_KIT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// "8", "64K", "1.5M", "2G": bytes, in powers of 1,024.
bool rondo_kit_read_size(const char *text, uint64_t *bytes);

// A decimal number from `low` to `high`.
bool rondo_kit_read_number(const char *text, uint64_t low, uint64_t high, uint64_t *value);
bool rondo_kit_read_u32(const char *text, uint32_t low, uint32_t high, uint32_t *value);

// Seconds such as "2" or "0.5", more than zero and less than a day, as nanoseconds.
bool rondo_kit_read_seconds(const char *text, uint64_t *duration_ns);

// The orders in which ranks submit the collectives of an iteration.
enum rondo_kit_orders {
  RONDO_KIT_ORDERS_ONE = 0,    // "one": as they were registered
  RONDO_KIT_ORDERS_COMMON = 1, // "common": all in one random order, another one in each iteration
  RONDO_KIT_ORDERS_OWN =
      2, // "own": each rank in a random order of its own, another one in each iteration
  RONDO_KIT_ORDERS_COUNT
};

// What values have names. The names of nccl-tests ("float", "alltoall") are read, too.
enum rondo_kit_names {
  RONDO_KIT_KIND,        // enum rondo_kind: "all_reduce"
  RONDO_KIT_DTYPE,       // enum rondo_dtype: "float32"
  RONDO_KIT_REDOP,       // enum rondo_redop: "premul_sum"
  RONDO_KIT_ORDER,       // enum rondo_order_policy: "fifo", "priority"
  RONDO_KIT_BUDGET,      // enum rondo_budget_policy: "adaptive", "fixed", "never"
  RONDO_KIT_BACKEND,     // enum rondo_backend: "host", "cuda"
  RONDO_KIT_ORDERS,      // enum rondo_kit_orders: "one", "common", "own"
  RONDO_KIT_QUANTISATION // enum rondo_quantisation: "int8"
};
bool rondo_kit_read_name(enum rondo_kit_names names, const char *text, int *value);

// The name of a value; "unknown" if it has none.
const char *rondo_kit_name(enum rondo_kit_names names, int value);

// The name that nccl-tests prints for a type, such as "float".
const char *rondo_kit_dtype_label(int dtype);

// ------------------------------------------------------------- command lines ---

// How an option is read, and the type of its value.
enum rondo_kit_value {
  RONDO_KIT_BY_READER = 0, // by the `read` of the option
  RONDO_KIT_FLAG,          // bool: the option takes no text and makes it true
  RONDO_KIT_TEXT,          // const char *: the text itself
  RONDO_KIT_U32,           // uint32_t from `low` to `high`
  RONDO_KIT_U64,           // uint64_t from `low` to `high`
  RONDO_KIT_SIZE,          // uint64_t, as rondo_kit_read_size
  RONDO_KIT_SECONDS,       // uint64_t, as rondo_kit_read_seconds
  RONDO_KIT_NAME           // int, as rondo_kit_read_name
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): tables give the fields in this order
struct rondo_kit_option {
  const char *name; // null: `help` is a heading. Without `help`: another name of the option above
  int letter;       // 0: the option has a name only
  const char *arg;  // what the help calls its text; null: it takes none
  const char *help;
  enum rondo_kit_value value;
  size_t offset; // of the value in the struct that is read
  uint64_t low, high;
  enum rondo_kit_names names;
  bool (*read)(const char *text, void *values); // gets the whole struct
  bool is_optional;                             // its text may be absent; `read` gets null then
};

struct rondo_kit_command {
  const struct rondo_kit_option *options; // ends with one that is all zero
  const char *doc, *args_doc;             // as in struct argp
  // Reads argument `number` (from 0). Null: the command takes no arguments.
  bool (*read_argument)(const char *text, unsigned number, void *values);
};

// Reads the command line into the struct `values`, which holds the defaults. Ends the program with
// status 2, and one line on stderr, if the command line is wrong.
void rondo_kit_command_read(const struct rondo_kit_command *command, int argc, char **argv,
                            void *values);

// ---------------------------------------------------------------------- text ---

// Writes "256 B", "64 KiB", "1.5 MiB" into `text` (16 bytes). Returns `text`.
char *rondo_kit_size_text(double bytes, char *text);
#define RONDO_KIT_SIZE_TEXT_BYTES 16

// Writes `value` with thousands separated by commas into `text` (32 bytes). Returns `text`.
char *rondo_kit_count_text(uint64_t value, char *text);
#define RONDO_KIT_COUNT_TEXT_BYTES 32

#endif // RONDO_TOOLS_KIT_OPTIONS_H
