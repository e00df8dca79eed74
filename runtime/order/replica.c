// Journals between processes that share no memory. Each keeps a *mirror* of the journals that its ranks are
// neighbours of: the same ring, in its own memory, which messages of the mesh fill in. So comparing is
// as it is anywhere (journal.h); only it hears later.
//
// A call sends nothing. What has been called since goes in one message a little later, or as soon as the ring is
// full; with it goes how far this rank has compared, which is what gives the other one room.
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/explore.h"
#include "runtime/job/processes.h"
#include "runtime/order/comm_end.h"
#include "runtime/order/comms.h"
#include "runtime/order/journal_place.h"
#include "runtime/rank/rank.h"

// Time is not the explorer's: what is late there is late by the order of messages.
#if defined(RONDO_EXPLORE)
#define PAUSE_NS UINT64_C(0)
#else
#define PAUSE_NS UINT64_C(5000000)
#endif
#define MOST_SHARE 100u // of the time between two rounds, one part for a round itself

struct calls {
  struct rondo_journal_name name;
  uint32_t is_over, count;
  uint64_t stamp, first; // calls before these
  uint64_t compared[2];
};
_Static_assert(sizeof(struct calls) == 64, "sent between processes");
_Static_assert(sizeof(struct rondo_signature) == 24, "likewise");

struct message {
  struct calls head;
  struct rondo_signature calls[RONDO_JOURNAL_PLACES];
};

// --------------------------------------------------------------------- telling ---

// What has been written since the neighbour was told last. Returns 0 if there is no news for it.
static int gather(const struct rondo_journal_place *place, uint32_t neighbour,
                  struct message *message) {
  const struct rondo_journal *journal = place->journal;
  struct calls *head = &message->head;
  uint64_t written = rondo_load_seq_cst_u64(&journal->written);
  *head = (struct calls){.name = place->name, .stamp = place->stamp};
  head->is_over = (uint32_t)place->is_over;
  head->first = place->told[neighbour];
  if (written - head->first > RONDO_JOURNAL_PLACES)
    head->first = written - RONDO_JOURNAL_PLACES;
  for (uint64_t at = head->first; at < written; at++)
    if (rondo_journal_read(&journal->entries[at % RONDO_JOURNAL_PLACES], at + 1,
                           &message->calls[head->count]))
      head->count++;
  int is_new = head->count || head->is_over;
  for (uint32_t i = 0; i < 2; i++) {
    head->compared[i] = rondo_load_acquire_u64(&journal->compared[i]);
    is_new |= head->compared[i] != place->told_compared[neighbour][i];
  }
  return is_new && head->first + head->count == written;
}

static void tell_one(struct rondo_job *job, struct rondo_journal_place *place, uint32_t neighbour,
                     uint32_t process) {
  struct message message;
  if (!gather(place, neighbour, &message))
    return;
  const struct calls *head = &message.head;
  place->told[neighbour] = head->first + head->count;
  memcpy(place->told_compared[neighbour], head->compared, sizeof head->compared);
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
    last = process; // two neighbours there have one mirror
    rondo_store_relaxed_u32(&place->is_proxied, 1);
    if (!RONDO_FAULT(JOURNAL_UNSENT))
      tell_one(job, place, i, process);
  }
}

static void tell_node(const void *node, VISIT order, void *arg) {
  struct rondo_journal_place *place = *(struct rondo_journal_place *const *)node;
  if ((order == postorder || order == leaf) && rondo_load_relaxed_u32(&place->is_proxied))
    rondo_replica_send(arg, place);
}

// A round: on the control thread.
static void tell_all(void *arg) {
  struct rondo_job *job = arg;
  struct rondo_journals *journals = &rondo_comms_of(job)->journals;
  pthread_mutex_lock(&job->lock);
  uint64_t begin_ns = rondo_now_ns();
  pthread_mutex_lock(&journals->news_lock); // what is written from now on makes another
  journals->is_coming = journals->is_urgent = 0;
  pthread_mutex_unlock(&journals->news_lock);
  twalk_r(journals->places, tell_node, job);
  pthread_mutex_lock(&journals->news_lock);
  journals->round_ns = rondo_now_ns() - begin_ns;
  pthread_mutex_unlock(&journals->news_lock);
  pthread_mutex_unlock(&job->lock);
}

void rondo_replica_schedule(struct rondo_job *job, int is_urgent) {
  struct rondo_journals *journals = &rondo_comms_of(job)->journals;
  pthread_mutex_lock(&journals->news_lock);
  int wanted = is_urgent ? !journals->is_urgent : !journals->is_coming && !journals->is_urgent;
  journals->is_urgent |= wanted && is_urgent;
  journals->is_coming |= wanted && !is_urgent;
  uint64_t pause_ns = is_urgent || !PAUSE_NS ? 0 : PAUSE_NS + MOST_SHARE * journals->round_ns;
  if (wanted && rondo_mesh_calls->after(job->mesh, pause_ns, tell_all, job) != RONDO_SUCCESS)
    journals->is_coming = journals->is_urgent = 0; // the next call tries again
  pthread_mutex_unlock(&journals->news_lock);
}

// ------------------------------------------------------------------- receiving ---

// The mirror of that journal, made if there is none. Null if there is no memory, or no use.
static struct rondo_journal_place *find_replica(struct rondo_job *job, uint32_t process,
                                                const struct calls *head) {
  struct rondo_journal_place *place = rondo_journal_find(job, &head->name);
  if (place && place->stamp == head->stamp)
    return place;
  if (place)
    rondo_journal_end(job, place);
  if (head->is_over)
    return NULL;
  struct rondo_journal_place like = {
      .name = head->name, .stamp = head->stamp, .process = process, .is_replica = 1};
  like.journal = rondo_journal_take(job);
  place = like.journal ? rondo_journal_add(job, &like) : NULL;
  if (place)
    rondo_store_release_u64(&like.journal->stamp, like.stamp);
  else if (like.journal)
    rondo_journal_give(job, like.journal);
  return place;
}

static void compare_again(void *arg);

// On the control thread: the application may never come by again, having called all that it will. A
// communicator that is in the middle of a call may have looked already; so it is looked at later.
static void compare_all(struct rondo_job *job, const uint64_t *key) {
  struct rondo_journals *journals = &rondo_comms_of(job)->journals;
  int done = 1;
  for (uint32_t r = 0; r < job->rank_count; r++)
    if (job->members[r])
      done &= rondo_comms_compare_held(rondo_rank_of(job->members[r]), key);
  if (!done && !journals->is_unfinished)
    journals->is_unfinished =
        rondo_mesh_calls->after(job->mesh, PAUSE_NS, compare_again, job) == RONDO_SUCCESS;
}

static void compare_again(void *arg) {
  struct rondo_job *job = arg;
  pthread_mutex_lock(&job->lock);
  rondo_comms_of(job)->journals.is_unfinished = 0;
  compare_all(job, NULL);
  pthread_mutex_unlock(&job->lock);
}

static int is_sound(const struct rondo_job *job, uint32_t process, const struct calls *head,
                    size_t size) {
  return head->count <= RONDO_JOURNAL_PLACES && head->first <= UINT64_MAX - head->count - 1 &&
         head->stamp && size == sizeof *head + head->count * sizeof(struct rondo_signature) &&
         head->name.rank < job->rank_count &&
         rondo_processes_where(job, head->name.rank) == process &&
         job->transports.peers[process].reach != RONDO_TRANSPORT_SHARED_MEMORY;
}

int rondo_replicas_receive(struct rondo_job *job, uint32_t process, const void *bytes,
                           size_t size) {
  struct message message;
  const struct calls *head = &message.head;
  if (size < sizeof *head || size > sizeof message)
    return 0;
  memcpy(&message, bytes, size);
  if (!is_sound(job, process, head, size))
    return 0;
  struct rondo_journal_place *place = find_replica(job, process, head);
  if (!place)
    return 1;
  struct rondo_journal *journal = place->journal;
  for (uint32_t i = 0; i < head->count; i++)
    rondo_journal_write(&journal->entries[(head->first + i) % RONDO_JOURNAL_PLACES],
                        head->first + i + 1, &message.calls[i]);
  for (uint32_t i = 0; i < 2; i++)
    rondo_store_release_u64(&journal->compared[i], head->compared[i]);   // J3
  rondo_store_seq_cst_u64(&journal->written, head->first + head->count); // J1
  if (head->is_over)
    rondo_journal_end(job, place);
  compare_all(job, &head->name.key);
  return 1;
}
