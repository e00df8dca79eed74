#include "sim/schedule/trace.h"

#include <inttypes.h>

#include <rondo/rondo.h>

static void name_add(struct rondo_sim_text *t, const struct rondo_schedule_job *job,
                     uint32_t line) {
  uint32_t copy;
  const struct rondo_schedule_statement *x = rondo_schedule_job_line(job, line, &copy);
  rondo_sim_text_add(t, "\"name\":\"%s%s%s %" PRIu32 "\"", x->name, *x->name ? " " : "",
                     rondo_kind_name(x->kind), copy);
}

static void event_add(struct rondo_sim_text *t, const struct rondo_schedule_job *job,
                      const struct rondo_schedule_machine *m, const struct rondo_schedule_ended *e,
                      uint64_t id) {
  const struct rondo_schedule_collective *c = rondo_schedule_machine_collective(m, e->collective);
  for (int is_end = 0; is_end < 2; is_end++) {
    uint64_t ns = is_end ? e->ended_ns : e->submitted_ns;
    rondo_sim_text_add(t, ",\n{\"ph\":\"%s\",\"cat\":\"run\",\"id\":%" PRIu64 ",",
                       is_end ? "e" : "b", id);
    name_add(t, job, c->line);
    rondo_sim_text_add(t, ",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"ts\":%" PRIu64 ".%03" PRIu64,
                       e->rank / job->settings.machine_ranks, e->rank, ns / 1000, ns % 1000);
    if (!is_end) {
      rondo_sim_text_add(t, ",\"args\":{\"collective\":%" PRIu32 ",\"bytes\":%" PRIu64 "}",
                         e->collective, c->layout->shape.bytes);
    }
    rondo_sim_text_add(t, "}");
  }
}

void rondo_schedule_trace(struct rondo_sim_text *t, const struct rondo_schedule_job *job,
                          const struct rondo_schedule_machine *m) {
  uint64_t count;
  const struct rondo_schedule_ended *ended = rondo_schedule_machine_ended(m, &count);
  rondo_sim_text_add(t, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
  for (uint32_t i = 0; i < job->machines; i++) {
    rondo_sim_text_add(t,
                       "%s\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%" PRIu32
                       ",\"args\":{\"name\":\"machine %" PRIu32 "\"}}",
                       i ? "," : "", i, i);
  }
  for (uint32_t i = 0; i < job->settings.rank_count; i++) {
    rondo_sim_text_add(t,
                       ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%" PRIu32
                       ",\"tid\":%" PRIu32 ",\"args\":{\"name\":\"rank %" PRIu32 "\"}}",
                       i / job->settings.machine_ranks, i, i);
  }
  for (uint64_t i = 0; i < count; i++) {
    event_add(t, job, m, &ended[i], i);
  }
  rondo_sim_text_add(t, "\n]}\n");
}
