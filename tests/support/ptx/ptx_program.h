// Programs of the PTX machine: PTX text, parsed and decoded once.
//
//   ptx_program_parse -> ptx_program_kernel ... -> ptx_program_destroy
//
// The machine knows the instructions that nvcc makes of the kernels of this tree, and those beside
// them (ptx_ops.h lists them). It refuses text with any other instruction, with module variables
// or with functions that are no entries.
#ifndef RONDO_TESTS_SUPPORT_PTX_PTX_PROGRAM_H
#define RONDO_TESTS_SUPPORT_PTX_PTX_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTX_WARP 32u
#define PTX_MAX_REGISTERS 5u        // operands of an instruction
#define PTX_CONSTANT 0x80000000u    // an operand with this bit is in the table of constants
#define PTX_NO_REGISTER 0x7fffffffu // an element that is not kept
#define PTX_PARAM_BYTES 4096u
#define PTX_MAX_THREADS 1024u
// The driver keeps the first bytes of shared memory since sm_80, so no variable has the address 0.
#define PTX_SHARED_BASE 1024u

enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_SHARED, PTX_PARAM };

struct ptx_warp;
struct ptx_instr;
typedef void ptx_run(struct ptx_warp *warp, const struct ptx_instr *instr);

// What an instruction that uses memory does there.
struct ptx_use {
  uint8_t space, order, scope; // enum ptx_space; ptx_order and ptx_scope of ptx_memory.h
  uint8_t bytes;               // of an element
  uint8_t count;               // of elements
  uint8_t is_signed;           // a load extends the sign
  uint8_t register_bytes;      // of the register of an element
  uint8_t address_bytes;       // of the register that holds the address
};

// A decoded instruction. A register is an offset into the registers of a warp, or with PTX_CONSTANT
// into the table of constants; there lie the values of 32 lanes. A predicate is a mask of lanes.
struct ptx_instr {
  ptx_run *run;
  uint32_t r[PTX_MAX_REGISTERS]; // first those written, then those read
  uint8_t written, read;
  uint16_t straight; // control instructions: instructions since the last one
  uint32_t target;   // of a branch
  struct ptx_use use;
  int64_t offset; // of an address; or an immediate operand of the instruction
};

struct ptx_line {
  uint32_t text;   // line of the PTX text, from 1
  uint32_t source; // line of the source; 0: unknown
  uint32_t file;   // number of the source file
};

struct ptx_param {
  uint32_t offset, bytes;
};

struct ptx_kernel {
  char *name;
  struct ptx_instr *code;
  struct ptx_line *lines; // one an instruction
  uint32_t count;
  uint32_t register_bytes; // of a warp
  uint8_t *constants;
  uint32_t constant_bytes;
  struct ptx_param *params;
  uint32_t param_count, param_bytes;
  uint32_t shared_bytes; // static ones, after PTX_SHARED_BASE; dynamic ones follow
  uint32_t max_threads;  // .maxntid, or PTX_MAX_THREADS
  struct ptx_kernel *next;
};

struct ptx_program {
  struct ptx_kernel *kernels;
  char **files; // names by number, from 1; null: no such file
  uint32_t file_count;
};

// Parses and decodes zero-terminated PTX text. 0, or -1 and one line in `why` that says which line
// of the text it does not take and what is there. -1 also if memory ran out. The caller destroys
// the program. A program does not change, so all threads may use it.
int ptx_program_parse(const char *text, struct ptx_program **program, char *why, size_t why_bytes);
void ptx_program_destroy(struct ptx_program *program);

// The entry of this name, or null.
const struct ptx_kernel *ptx_program_kernel(const struct ptx_program *program, const char *name);

// Gives the kernels of `program` the source lines of those of `lines`: the same kernels, compiled
// with lines in the text. 0, or -1 and nothing changes: a kernel is not there or has other
// instructions, or memory ran out.
int ptx_program_take_lines(struct ptx_program *program, const struct ptx_program *lines);

// The name of a source file of a struct ptx_line, or null.
const char *ptx_program_file(const struct ptx_program *program, uint32_t file);

#endif // RONDO_TESTS_SUPPORT_PTX_PTX_PROGRAM_H
