// Replicas of journals, for processes that share no memory.
//
// Each process keeps a replica of the journals that its ranks are neighbours of: the same ring in
// its own memory, filled by messages of the mesh. Comparing works as with any journal (journal.h),
// only later.
//
// A call sends nothing. The calls since the last message go in one message a little later, or as
// soon as the ring is full. The message also says how far the sender has compared, which makes room
// in the receiver's ring.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/explore.h"
#include "runtime/job/processes.h"
#include "runtime/order/comm_end.h"
#include "runtime/order/comms.h"
#include "runtime/order/journal_place.h"
#include "runtime/rank/rank.h"

// The explorer has no clock: the order of messages decides what arrives late.
#if defined(RONDO_EXPLORE)
#define PAUSE_NS UINT64_C(0)
#else
#define PAUSE_NS UINT64_C(5000000)
#endif
#define ROUND_SHARE 100u // a round takes at most one part in so many of the time between rounds

// RONDO_MESSAGE_CALLS: `count` signatures follow the head.
struct calls_head {
  struct rondo_journal_name name;
  uint32_t is_over, count;
  uint64_t stamp, first; // calls before those of the message
  uint64_t compared[2];
};
_Static_assert(sizeof(struct calls_head) == 64, "sent between processes");
_Static_assert(sizeof(struct rondo_signature) == 24, "sent between processes");

struct calls_message {
  struct calls_head head;
  struct rondo_signature calls[RONDO_JOURNAL_ENTRIES];
};

// -------------------------------------------------------------------- sending ---

// Collects what is new since the last message to the neighbour. Returns false if there is nothing.
static bool calls_gather(const struct rondo_journal_place *place, uint32_t neighbour,
                         struct calls_message *message) {
  const struct rondo_journal *journal = place->journal;
  struct calls_head *head = &message->head;
  uint64_t written = rondo_load_seq_cst_u64(&journal->written);
  *head = (struct calls_head){.name = place->name, .stamp = place->stamp};
  head->is_over = (uint32_t)place->is_over;
  head->first = place->sent_calls[neighbour];
  if (written - head->first > RONDO_JOURNAL_ENTRIES)
    head->first = written - RONDO_JOURNAL_ENTRIES;
  for (uint64_t at = head->first; at < written; at++)
    if (rondo_journal_read(&journal->entries[at % RONDO_JOURNAL_ENTRIES], at + 1,
                           &message->calls[head->count]))
      head->count++;
  bool is_new = head->count || head->is_over;
  for (uint32_t i = 0; i < 2; i++) {
    head->compared[i] = rondo_load_acquire_u64(&journal->compared[i]);
    is_new |= head->compared[i] != place->sent_compared[neighbour][i];
  }
  return is_new && head->first + head->count == written;
}

static void place_send_to(struct rondo_job *job, struct rondo_journal_place *place,
                          uint32_t neighbour, uint32_t process) {
  struct calls_message message;
  if (!calls_gather(place, neighbour, &message))
    return;
  const struct calls_head *head = &message.head;
  place->sent_calls[neighbour] = head->first + head->count;
  memcpy(place->sent_compared[neighbour], head->compared, sizeof head->compared);
  rondo_processes_send(job, process, RONDO_MESSAGE_CALLS, &message,
                       sizeof *head + head->count * sizeof *message.calls);
}

void rondo_replica_send(struct rondo_job *job, struct rondo_journal_place *place) {
  uint32_t last = RONDO_HERE;
  for (uint32_t i = 0; i < place->neighbour_count; i++) {
    uint32_t process = rondo_processes_where(job, place->neighbours[i]);
    if (process >= job->process_count || process == last ||
        job->transports.peers[process].reach != RONDO_TRANSPORT_UCX)
      continue;
    last = process; // two neighbours in one process share a replica
    rondo_store_relaxed_u32(&place->is_proxied, 1);
    if (!RONDO_FAULT(JOURNAL_UNSENT))
      place_send_to(job, place, i, process);
  }
}

// Sends what is new in all journals. Runs on the control thread.
static void job_send_round(void *arg) {
  struct rondo_job *job = arg;
  struct rondo_journals *journals = &rondo_comms_of(job)->journals;
  pthread_mutex_lock(&job->lock);
  uint64_t begin_ns = rondo_now_ns();
  pthread_mutex_lock(&journals->schedule_lock); // later calls schedule another round
  journals->is_scheduled = journals->is_urgent = 0;
  pthread_mutex_unlock(&journals->schedule_lock);
  struct rondo_journal_place *p;
  LIST_FOREACH (p, &journals->list, listed)
    if (rondo_load_relaxed_u32(&p->is_proxied))
      rondo_replica_send(job, p);
  pthread_mutex_lock(&journals->schedule_lock);
  journals->round_ns = rondo_now_ns() - begin_ns;
  pthread_mutex_unlock(&journals->schedule_lock);
  pthread_mutex_unlock(&job->lock);
}

void rondo_replica_schedule(struct rondo_job *job, int is_urgent) {
  struct rondo_journals *journals = &rondo_comms_of(job)->journals;
  pthread_mutex_lock(&journals->schedule_lock);
  bool is_wanted =
      is_urgent ? !journals->is_urgent : !journals->is_scheduled && !journals->is_urgent;
  journals->is_urgent |= is_wanted && is_urgent;
  journals->is_scheduled |= is_wanted && !is_urgent;
  uint64_t pause_ns = is_urgent || !PAUSE_NS ? 0 : PAUSE_NS + ROUND_SHARE * journals->round_ns;
  if (is_wanted &&
      rondo_members_calls->after(job->membership, pause_ns, job_send_round, job) != RONDO_SUCCESS)
    journals->is_scheduled = journals->is_urgent = 0; // the next call tries again
  pthread_mutex_unlock(&journals->schedule_lock);
}

// ------------------------------------------------------------------- receiving ---

// Finds the replica that a message is for, or makes it. Null if the journal is over, or there is no
// memory.
static struct rondo_journal_place *replica_find(struct rondo_job *job, uint32_t process,
                                                const struct calls_head *head) {
  struct rondo_journal_place *place = rondo_journal_find(job, &head->name);
  if (place && place->stamp == head->stamp)
    return place;
  if (place)
    rondo_journal_remove(job, place);
  if (head->is_over)
    return NULL;
  struct rondo_journal_place like = {
      .name = head->name, .stamp = head->stamp, .process = process, .is_replica = 1};
  like.journal = rondo_journal_alloc(job);
  place = like.journal ? rondo_journal_add(job, &like) : NULL;
  if (place)
    rondo_store_release_u64(&like.journal->stamp, like.stamp);
  else if (like.journal)
    rondo_journal_release(job, like.journal);
  return place;
}

static void job_compare_again(void *arg);

// Compares here, on the control thread, because the application may have made its last call. A
// communicator that is locked by a call is compared later.
static void job_compare(struct rondo_job *job, const uint64_t *key) {
  struct rondo_journals *journals = &rondo_comms_of(job)->journals;
  bool done = true;
  for (uint32_t r = 0; r < job->rank_count; r++)
    if (job->members[r])
      done &= rondo_comms_compare(rondo_rank_of(job->members[r]), key, RONDO_JOB_LOCK_HELD);
  if (!done && !journals->is_unfinished)
    journals->is_unfinished = rondo_members_calls->after(job->membership, PAUSE_NS,
                                                         job_compare_again, job) == RONDO_SUCCESS;
}

static void job_compare_again(void *arg) {
  struct rondo_job *job = arg;
  pthread_mutex_lock(&job->lock);
  rondo_comms_of(job)->journals.is_unfinished = 0;
  job_compare(job, NULL);
  pthread_mutex_unlock(&job->lock);
}

static bool calls_is_valid(const struct rondo_job *job, uint32_t process,
                           const struct calls_head *head, size_t size) {
  return head->count <= RONDO_JOURNAL_ENTRIES && head->first <= UINT64_MAX - head->count - 1 &&
         head->stamp && size == sizeof *head + head->count * sizeof(struct rondo_signature) &&
         rondo_processes_is_rank_at(job, head->name.rank, process) &&
         job->transports.peers[process].reach != RONDO_TRANSPORT_SHARED_MEMORY;
}

int rondo_replicas_receive(struct rondo_job *job, const struct rondo_mesh_message *message) {
  struct calls_message received;
  const struct calls_head *head = &received.head;
  if (message->size < sizeof *head || message->size > sizeof received)
    return 0;
  memcpy(&received, message->bytes, message->size);
  if (!calls_is_valid(job, message->from, head, message->size))
    return 0;
  struct rondo_journal_place *place = replica_find(job, message->from, head);
  if (!place)
    return 1;
  struct rondo_journal *journal = place->journal;
  for (uint32_t i = 0; i < head->count; i++)
    rondo_journal_write(&journal->entries[(head->first + i) % RONDO_JOURNAL_ENTRIES],
                        head->first + i + 1, &received.calls[i]);
  for (uint32_t i = 0; i < 2; i++)
    rondo_store_release_u64(&journal->compared[i], head->compared[i]);   // J3
  rondo_store_seq_cst_u64(&journal->written, head->first + head->count); // J1
  if (head->is_over)
    rondo_journal_remove(job, place);
  job_compare(job, &head->name.key);
  return 1;
}
