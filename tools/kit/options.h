// Reads what a user types: sizes, numbers in a range, names of types, reductions, collectives and
// policies. Every reader returns false, and leaves the output alone, for text that it does not
// understand.
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

// Rondo's names ("float32", "premul_sum", "all_reduce") and those of nccl-tests ("float", "half").
bool rondo_kit_read_dtype(const char *text, int *dtype);
bool rondo_kit_read_redop(const char *text, int *redop);
bool rondo_kit_read_kind(const char *text, int *kind);

// "fifo", "priority"; "adaptive", "fixed", "never"; "host", "cuda".
bool rondo_kit_read_order(const char *text, int *order);
bool rondo_kit_read_budget(const char *text, int *budget);
bool rondo_kit_read_backend(const char *text, int *backend);

// The name that nccl-tests prints for a type, such as "float".
const char *rondo_kit_dtype_label(int dtype);

// Names of the policies and backends above.
const char *rondo_kit_order_name(int order);
const char *rondo_kit_budget_name(int budget);
const char *rondo_kit_backend_name(int backend);

// Writes "256 B", "64 KiB", "1.5 MiB" into `text` (16 bytes). Returns `text`.
char *rondo_kit_size_text(uint64_t bytes, char *text);
#define RONDO_KIT_SIZE_TEXT_BYTES 16

// Writes `value` with thousands separated by commas into `text` (32 bytes). Returns `text`.
char *rondo_kit_count_text(uint64_t value, char *text);
#define RONDO_KIT_COUNT_TEXT_BYTES 32

#endif // RONDO_TOOLS_KIT_OPTIONS_H
