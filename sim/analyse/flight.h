// PyTorch Flight Recorder dumps: the fields of an entry and what becomes of them. The JSON reader
// and the pickle reader fill entries field by field.
#ifndef RONDO_SIM_ANALYSE_FLIGHT_H
#define RONDO_SIM_ANALYSE_FLIGHT_H

#include "sim/analyse/record.h"

// Fields of an entry; the first ones are numbers.
enum rondo_analyse_flight_field {
  RONDO_ANALYSE_FIELD_NONE,
  RONDO_ANALYSE_FIELD_RECORD_ID,
  RONDO_ANALYSE_FIELD_PG_ID,
  RONDO_ANALYSE_FIELD_SEQ,
  RONDO_ANALYSE_FIELD_P2P_SEQ,
  RONDO_ANALYSE_FIELD_CREATED,
  RONDO_ANALYSE_FIELD_STARTED,
  RONDO_ANALYSE_FIELD_COMPLETED,
  RONDO_ANALYSE_FIELD_PROCESS_GROUP,
  RONDO_ANALYSE_FIELD_THREAD_ID,
  RONDO_ANALYSE_FIELD_NAME,
  RONDO_ANALYSE_FIELD_IN_SIZES,
  RONDO_ANALYSE_FIELD_IN_DTYPES,
  RONDO_ANALYSE_FIELD_OUT_SIZES,
  RONDO_ANALYSE_FIELD_STATE,
  RONDO_ANALYSE_FIELD_RETIRED,
  RONDO_ANALYSE_FIELD_IS_P2P,
  RONDO_ANALYSE_FIELD_FRAMES
};

// An entry as the dump has it. Strings are numbers in the record's table.
struct rondo_analyse_entry {
  int64_t record_id, pg_id, seq, p2p_seq;
  int64_t created_ns, started_ns, completed_ns;
  uint64_t in_count, out_count;
  uint32_t pg_name, pg_desc, thread, name, shape, dtype, site;
  int state; // enum rondo_analyse_state
  bool retired, is_p2p, counts_known;
};

// What an operation's name means, kept for later entries with that name.
struct rondo_analyse_flight_name {
  uint32_t name;
  uint8_t kind;
  bool uneven, has_peers;
  int32_t self, peer;
};

// What is known of a dump before its groups are settled.
struct rondo_analyse_flight {
  struct rondo_analyse_record *record;
  struct rondo_analyse_strings *strings;
  struct rondo_analyse_flight_config *configs; // pg_config
  size_t config_count;
  struct rondo_analyse_flight_status *statuses; // pg_status
  size_t status_count;
  int64_t first_record_id;
  uint32_t version;                           // string; 0: not recorded
  uint32_t last_group;                        // of the previous entry; tried first
  struct rondo_analyse_flight_name names[16]; // indexed by the low bits of the name's number
  uint32_t last_dtype;                        // the last dtype, and what it means
  uint8_t last_dtype_is;
};

struct rondo_analyse_flight_config {
  uint32_t name, desc;
  int64_t *members;
  size_t member_count;
};

struct rondo_analyse_flight_status {
  int64_t pg_id, last_enqueued, last_started, last_completed;
};

// Begins a dump, which becomes the record's one track.
void rondo_analyse_flight_init(struct rondo_analyse_flight *f, struct rondo_analyse_record *r);

// The field that a key names. `hint` (0 at first) makes keys fast that come in the same order.
enum rondo_analyse_flight_field rondo_analyse_flight_field_of(struct rondo_analyse_slice key,
                                                              unsigned *hint);

// An entry with nothing recorded.
struct rondo_analyse_entry rondo_analyse_entry_empty(void);

// Where an entry keeps a field that is a number; null for other fields.
int64_t *rondo_analyse_entry_number(struct rondo_analyse_entry *e,
                                    enum rondo_analyse_flight_field field);

// The state that a name means.
int rondo_analyse_flight_state_of(struct rondo_analyse_slice name);

// Adds the group that one line of pg_config describes; `ranks` is its list as text.
void rondo_analyse_flight_add_config(struct rondo_analyse_flight *f, uint32_t name, uint32_t desc,
                                     const char *ranks);

// Adds one line of pg_status.
void rondo_analyse_flight_add_status(struct rondo_analyse_flight *f,
                                     const struct rondo_analyse_flight_status *status);

// Adds an entry as the track's next call.
void rondo_analyse_flight_add_entry(struct rondo_analyse_flight *f,
                                    const struct rondo_analyse_entry *entry);

// The string that names a stack frame as a call site, if the frame is the user's; 0 if the frame is
// the library's or has no file.
uint32_t rondo_analyse_flight_site(struct rondo_analyse_strings *strings, const char *file,
                                   int64_t line, const char *function);

// Settles groups and states at the end of the dump, and frees what `f` holds.
void rondo_analyse_flight_finish(struct rondo_analyse_flight *f);

#endif // RONDO_SIM_ANALYSE_FLIGHT_H
