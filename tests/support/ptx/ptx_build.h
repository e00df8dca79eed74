// A kernel while it is parsed and decoded: shared by ptx_parse.c, ptx_decode.c and ptx_registers.c.
// ptx_build.c adds to it.
#ifndef RONDO_TESTS_SUPPORT_PTX_PTX_BUILD_H
#define RONDO_TESTS_SUPPORT_PTX_PTX_BUILD_H

#include "tests/support/ptx/ptx_exec.h"

#define PTX_NAME_BYTES 128u
#define PTX_MAX_TERMS 6u
#define PTX_MAX_PARTS 4u // of a vector

enum ptx_symbol_kind { PTX_A_PARAM, PTX_A_SHARED, PTX_A_REGISTER, PTX_A_FAMILY, PTX_A_LABEL };

struct ptx_symbol {
  char name[PTX_NAME_BYTES];
  enum ptx_symbol_kind kind;
  uint64_t value; // offset; or first register; or number of the label
  uint32_t count; // registers of a family
  uint32_t depth; // of the braces around it; it ends with them
  uint32_t next;  // in the bucket, from 1
};

enum ptx_term_kind {
  PTX_T_REGISTER,
  PTX_T_NUMBER,
  PTX_T_FLOAT,   // 0f...: bits in value
  PTX_T_DOUBLE,  // 0d...
  PTX_T_SPECIAL, // %tid.x ...: enum ptx_special in value
  PTX_T_SYMBOL,  // a label, a parameter or a shared variable, and an offset
  PTX_T_ADDRESS, // [register or symbol + offset]
  PTX_T_VECTOR,
  PTX_T_NOTHING // _
};

// An operand as it stands in the text.
struct ptx_term {
  enum ptx_term_kind kind;
  bool is_negated; // !p
  uint32_t reg;    // virtual; PTX_NO_REGISTER: an address without one
  uint32_t second; // p|q: virtual, else PTX_NO_REGISTER
  uint64_t value;
  int64_t offset;
  const struct ptx_symbol *symbol;
  uint32_t part_count;
  uint32_t parts[PTX_MAX_PARTS]; // virtual registers or PTX_CONSTANT | ..., of a vector
};

#define PTX_BUCKETS 1024u

struct ptx_build {
  const char *at; // the text that comes next
  uint32_t line;
  char *why;
  size_t why_bytes;
  bool has_failed;
  struct ptx_program *program;
  struct ptx_kernel *kernel;
  uint32_t capacity; // of kernel->code
  uint32_t source_line, source_file;
  uint32_t depth; // of braces
  struct ptx_symbol *symbols;
  uint32_t symbol_count, symbol_capacity;
  uint32_t buckets[PTX_BUCKETS]; // symbols, from 1
  uint8_t *register_bytes;       // of virtual registers; 1: a predicate
  uint32_t register_count, register_capacity;
  uint32_t *labels; // instructions by number of label; UINT32_MAX: not there yet
  uint32_t label_count, label_capacity;
  uint32_t constant_capacity;
  uint32_t constant_buckets[PTX_BUCKETS];
  uint32_t *constant_next; // by slot
  uint32_t slot_capacity;
  uint64_t dynamic_align; // of extern shared memory; 0: there is none
  char dynamic_name[PTX_NAME_BYTES];
};

// Fails the build with a line about the text. False, so that callers can return it.
__attribute__((format(printf, 2, 3))) bool ptx_build_refuse(struct ptx_build *b, const char *format,
                                                            ...);
// Makes room for one more of `count` elements. `array` points to the pointer.
bool ptx_build_grow(struct ptx_build *b, void *array, uint32_t count, uint32_t *capacity,
                    size_t bytes);

// New virtual registers of so many bytes (1: predicates). The first one's number.
bool ptx_build_registers(struct ptx_build *b, uint32_t count, uint32_t bytes, uint32_t *first);
// The operand that is `value` in all lanes.
bool ptx_build_constant(struct ptx_build *b, uint64_t value, uint32_t bytes, uint32_t *operand);
bool ptx_build_label(struct ptx_build *b, uint32_t *label); // a new one
bool ptx_build_place(struct ptx_build *b, uint32_t label);  // here
// Adds an instruction; null: it failed. Valid until the next one is added.
struct ptx_instr *ptx_build_add(struct ptx_build *b, ptx_run *run, uint32_t written, uint32_t read);

// The newest symbol of this name, or null.
struct ptx_symbol *ptx_symbol_find(const struct ptx_build *b, const char *name, size_t length);
// Adds one inside the braces that are open; null: it failed. It moves when the next one is added.
struct ptx_symbol *ptx_symbol_add(struct ptx_build *b, const char *name, enum ptx_symbol_kind kind,
                                  uint64_t value);
// Forgets the symbols inside braces that have closed. Labels are known in the whole entry.
void ptx_symbols_end(struct ptx_build *b);

// ptx_decode.c: adds what an instruction does. `text`: its name with all suffixes.
bool ptx_build_decode(struct ptx_build *b, const char *text, struct ptx_term *terms,
                      uint32_t count);

// ptx_registers.c: gives each virtual register a place in the registers of a warp.
bool ptx_build_allocate(struct ptx_build *b);

#endif // RONDO_TESTS_SUPPORT_PTX_PTX_BUILD_H
