// What an agreement core knows (agreement.h). For agreement*.c alone.
#ifndef RONDO_RUNTIME_JOB_AGREEMENT_STATE_H
#define RONDO_RUNTIME_JOB_AGREEMENT_STATE_H

#include "runtime/job/agreement.h"
#include "runtime/job/message.h"

// What is known of a group.
struct rondo_agreement_group {
  LIST_ENTRY(rondo_agreement_group) listed;
  const struct rondo_member_list *list;
  LIST_HEAD(, rondo_agreement_entry) entries;
  uint32_t place;       // of this process in `list->processes`; RONDO_NO_PLACE: not known yet
  uint32_t local_count; // members in this process
  uint32_t gone_rank;   // a member that is gone, or UINT32_MAX
  bool is_lost;         // a member is lost: entries fail without a message
  uint8_t *has_left;    // by place: 1 if no rank is left in the process; null: none has left
  uint32_t *known;      // processes that have the member list
  uint32_t known_count, known_capacity;
};

// How often a rank of this process has registered an id.
struct rondo_agreement_times {
  uint32_t rank;
  uint64_t times;
};

struct rondo_agreement_id {
  struct rondo_id id;
  LIST_HEAD(, rondo_agreement_entry) entries;
  struct rondo_agreement_times *times;
  uint32_t times_count;
};

enum rondo_agreement_role { RONDO_ROLE_NONE = 0, RONDO_ROLE_PARENT, RONDO_ROLE_CHILD };

// Another process that an entry is shared with. Role NONE: it takes this process for a neighbour,
// because it knows already who has left, and this process does not.
struct rondo_agreement_edge {
  uint32_t process;
  uint8_t role, heard, told; // enum rondo_agreement_role, enum rondo_entry_fact
  uint64_t heard_limit, told_limit;
};

struct rondo_agreement_local {
  uint32_t rank;
  uint32_t has_ended;
};

struct rondo_agreement_entry {
  LIST_ENTRY(rondo_agreement_entry) in_id, in_group;
  struct rondo_agreement_id *id;
  struct rondo_agreement_group *group;
  uint64_t generation;
  struct rondo_agreement_local *locals; // ranks here that have registered
  uint32_t local_count, ended_count;
  uint32_t edge_count, edge_capacity;
  struct rondo_agreement_edge *edges;
  uint32_t rank; // that has registered `descriptor`; UINT32_MAX: none is known
  struct rondo_descriptor descriptor;
  bool is_agreed, is_over;
  bool is_silent; // failed for a loss, which every process hears of
  int status;     // of its failure, or RONDO_SUCCESS
  uint32_t culprit, other;
  char *text; // null: the status tells
  uint64_t limit;
  uint32_t limit_culprit;
  uint32_t told_here; // facts that the caller knows for all registrations here
  uint64_t told_here_limit;
};

// True for the failure of a communicator: nobody registers the entry, and it has no fact but
// FAILED.
static inline bool rondo_agreement_entry_is_failure(const struct rondo_agreement_entry *e) {
  return e->id->id.space == RONDO_SPACE_KEY;
}

// ---- agreement_group.c ----

struct rondo_agreement_group *rondo_agreement_group_find(const struct rondo_agreement *a,
                                                         uint64_t digest);
// Finds or makes what is known of a list. Null: no memory.
struct rondo_agreement_group *rondo_agreement_group_get(struct rondo_agreement *a,
                                                        const struct rondo_member_list *list);
// Finds the place of this process in the tree, and those of processes that have left. Returns false
// without memory.
bool rondo_agreement_group_locate(struct rondo_agreement *a, struct rondo_agreement_group *g);
void rondo_agreement_groups_free(struct rondo_agreement *a);
bool rondo_agreement_group_is_known(const struct rondo_agreement_group *g, uint32_t process);
// Notes that a process has the member list. Returns false without memory.
bool rondo_agreement_group_note_known(struct rondo_agreement_group *g, uint32_t process);
// Notes that a process has left. Returns false without memory.
bool rondo_agreement_group_note_left(struct rondo_agreement_group *g, uint32_t place);
bool rondo_agreement_group_has_left(const struct rondo_agreement_group *g, uint32_t process);
// The place of the parent of this process, or RONDO_NO_PLACE for the root.
uint32_t rondo_agreement_group_parent(const struct rondo_agreement_group *g);
// Calls `visit` for the place of each child of this process.
void rondo_agreement_group_children(const struct rondo_agreement_group *g,
                                    void (*visit)(uint32_t place, void *arg), void *arg);
// Adds ranks to those that are gone, and to their groups. Returns false without memory.
bool rondo_agreement_note_gone(struct rondo_agreement *a, const uint32_t *ranks, uint32_t count,
                               bool is_lost);
// Notes that a member is gone. A loss counts more: it silences the group.
void rondo_agreement_group_note_gone(struct rondo_agreement_group *g, uint32_t rank, bool is_lost);
bool rondo_agreement_is_gone(const struct rondo_agreement *a, uint32_t rank);
// Takes a part of a member list. Returns what step returns.
int rondo_agreement_receive_members(struct rondo_agreement *a, uint32_t from, const void *bytes,
                                    size_t size);
void rondo_agreement_partials_free(struct rondo_agreement *a, uint32_t from);

// ---- agreement_entry.c ----

// Finds or makes what is known of an id. Null: none, or no memory.
struct rondo_agreement_id *rondo_agreement_id_find(const struct rondo_agreement *a,
                                                   struct rondo_id id);
struct rondo_agreement_id *rondo_agreement_id_get(struct rondo_agreement *a, struct rondo_id id);
// Forgets an id without entries, unless a rank here may register it again.
void rondo_agreement_id_drop_if_over(struct rondo_agreement *a, struct rondo_agreement_id *id);
void rondo_agreement_ids_free(struct rondo_agreement *a);
uint64_t rondo_agreement_id_times(const struct rondo_agreement_id *id, uint32_t rank);

struct rondo_agreement_entry *rondo_agreement_entry_find(const struct rondo_agreement_id *id,
                                                         uint64_t generation,
                                                         const struct rondo_agreement_group *g);
struct rondo_agreement_entry *rondo_agreement_entry_make(struct rondo_agreement *a,
                                                         struct rondo_agreement_id *id,
                                                         uint64_t generation,
                                                         struct rondo_agreement_group *g);
struct rondo_agreement_key rondo_agreement_entry_key(const struct rondo_agreement_entry *e);
// True if all members here have registered.
bool rondo_agreement_entry_is_complete_here(const struct rondo_agreement_entry *e);
// Finds the neighbours of this process anew. Returns false without memory.
bool rondo_agreement_entry_find_edges(struct rondo_agreement *a, struct rondo_agreement_entry *e);
struct rondo_agreement_edge *rondo_agreement_entry_edge(struct rondo_agreement_entry *e,
                                                        uint32_t process);
struct rondo_agreement_edge *rondo_agreement_entry_edge_get(struct rondo_agreement_entry *e,
                                                            uint32_t process);
// Fails the runs of an entry, unless they have failed before. The caller publishes the entry after
// this call and after other changes.
void rondo_agreement_entry_fail(struct rondo_agreement_entry *e,
                                const struct rondo_agreement_failure *failure);
void rondo_agreement_entry_limit(struct rondo_agreement_entry *e, uint64_t completed,
                                 uint32_t culprit);
// Tells the caller and the neighbours what they do not know yet, and drops the entry if it is over.
void rondo_agreement_entry_publish(struct rondo_agreement *a, struct rondo_agreement_entry *e);

// ---- agreement_send.c ----

// Appends an action with up to two pieces of bytes. Returns false without memory.
bool rondo_agreement_emit(struct rondo_agreement *a, const struct rondo_agreement_action *action,
                          const void *bytes, size_t size);
// Sends what is known of an entry; before, if need be, the member list. `facts`: all that `process`
// shall know. Returns false without memory.
bool rondo_agreement_entry_send(struct rondo_agreement *a, const struct rondo_agreement_entry *e,
                                uint32_t process, uint32_t facts, enum rondo_agreement_kind kind);
// Answers a message about an entry that has ended here: OVER, or `failure`.
void rondo_agreement_answer(struct rondo_agreement *a, uint32_t process,
                            const struct rondo_message_entry *about,
                            const struct rondo_agreement_failure *failure);

#endif // RONDO_RUNTIME_JOB_AGREEMENT_STATE_H
