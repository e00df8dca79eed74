// Numbers with units, as options give them.
#ifndef RONDO_SIM_SCHEDULE_NUMBERS_H
#define RONDO_SIM_SCHEDULE_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

// Read a whole text, and return false if it is anything else.
//   count: a whole number from `least` to `most`
//   bytes: a whole number, with k, M, G (1024) or KiB, MiB, GiB, or kB, MB, GB (1000) behind it
//   ns:    a time with ns, us, ms or s behind it; 0 needs no unit
//   rate:  a bandwidth such as 25GB/s or 100Gbit/s; sets the nanoseconds of a byte
bool rondo_schedule_read_count(const char *text, uint64_t least, uint64_t most, uint64_t *value);
bool rondo_schedule_read_bytes(const char *text, uint64_t *value);
bool rondo_schedule_read_ns(const char *text, double *value);
bool rondo_schedule_read_rate(const char *text, double *byte_ns);
bool rondo_schedule_read_factor(const char *text, double most, double *value);

#endif // RONDO_SIM_SCHEDULE_NUMBERS_H
