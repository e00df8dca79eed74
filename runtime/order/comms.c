#include "runtime/order/comms.h"

#include <stdlib.h>

#include "runtime/job/message.h"
#include "runtime/order/comm_end.h"
#include "runtime/order/comm_detach.h"
#include "runtime/order/comm_failure.h"
#include "runtime/rank/rank.h"

static int comms_open(struct rondo_job *job) {
  struct rondo_comms *comms = calloc(1, sizeof *comms);
  job->comms = comms;
  if (!comms)
    return RONDO_ERR_NO_MEMORY;
  pthread_mutex_init(&comms->journals.schedule_lock, NULL);
  return RONDO_SUCCESS;
}

static void comms_close(struct rondo_job *job) {
  struct rondo_comms *comms = job->comms;
  if (!comms)
    return;
  rondo_journals_free(job);
  rondo_bounded_list_clear(&comms->detachments);
  rondo_bounded_list_clear(&comms->detached_ends);
  rondo_bounded_list_clear(&comms->failures);
  pthread_mutex_destroy(&comms->journals.schedule_lock);
  free(comms);
}

static void comms_located(struct rondo_job *job) {
  rondo_journals_announce(job);
  rondo_detachments_announce(job);
}

static void comms_lose(struct rondo_job *job, uint32_t rank) {
  rondo_journals_lose(job, rank);
  rondo_failures_lose(job, rank);
}

static int comms_receive(struct rondo_job *job, const struct rondo_mesh_message *message) {
  switch (message->type) {
  case RONDO_MESSAGE_JOURNAL:
    return rondo_journals_receive(job, message);
  case RONDO_MESSAGE_CALLS:
    return rondo_replicas_receive(job, message);
  default:
    return rondo_detachments_receive(job, message);
  }
}

const struct rondo_job_extension rondo_order_extension = {
    .open = comms_open,
    .close = comms_close,
    .located = comms_located,
    .lost = comms_lose,
    .failed = rondo_comm_receive_failure,
    .key_failed = rondo_failures_receive,
    .settle = rondo_comms_broadcast_failures,
    .receive = comms_receive,
    .types = {RONDO_MESSAGE_JOURNAL, RONDO_MESSAGE_CALLS, RONDO_MESSAGE_COMM_DETACHED}};

const struct rondo_rank_extension rondo_order_rank_extension = {.serve = rondo_comms_serve,
                                                                .close = rondo_comms_free};
