#include "tests/explore/virtual_root.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/script/script.h"

#define ROOTS 256u
#define MEMBERS 1024u
#define REFUSED_NS UINT64_C(50000000) // until a mesh knows that the root is not there

// A connection of a mesh with the root.
struct member {
  struct rondo_mesh *mesh;
  uint64_t who;
  uint32_t place;
  bool has_roster, was_given, is_gone;
};

enum kind { MESSAGE, HAS_ROSTER, GONE };

struct note {
  struct note *next;
  enum kind kind;
  struct rondo_mesh *from;
  uint64_t due_ns;
  struct rondo_shared_bytes *bytes;
};

struct virtual_root {
  struct rondo_job_key key;
  uint32_t process;
  const struct rondo_root_gatherer *gatherer;
  void *gather;
  bool is_ended, is_closed; // closed: the roster is made, or there will be none
  struct member members[MEMBERS];
  uint32_t member_count;
  struct note *first, **end;
};

static struct virtual_root *roots[ROOTS];
static uint32_t root_count;

static struct virtual_root *root_find(const struct rondo_job_key *key) {
  for (uint32_t i = 0; i < root_count; i++)
    if (memcmp(&roots[i]->key, key, sizeof *key) == 0)
      return roots[i];
  return NULL;
}

static struct member *root_member(struct virtual_root *root, struct rondo_mesh *mesh, bool makes) {
  for (uint32_t i = 0; i < root->member_count; i++)
    if (root->members[i].mesh == mesh)
      return &root->members[i];
  if (!makes)
    return NULL;
  if (root->member_count == MEMBERS)
    abort();
  struct member *m = &root->members[root->member_count++];
  *m = (struct member){.mesh = mesh, .place = UINT32_MAX};
  return m;
}

static void root_post(struct virtual_root *root, enum kind kind, struct rondo_mesh *from,
                      struct rondo_shared_bytes *bytes) {
  struct note *n = calloc(1, sizeof *n);
  if (!n)
    abort();
  *n = (struct note){NULL, kind, from, script_now_ns() + virtual_delay_ns(),
                     rondo_shared_bytes_get(bytes)};
  for (const struct note *before = root->first; before; before = before->next)
    if (before->from == from && before->due_ns > n->due_ns)
      n->due_ns = before->due_ns;
  *root->end = n;
  root->end = &n->next;
}

// ---------------------------------------------------------------------- the roster ---

// Gives the roster to the first process that may be without it.
static void root_give(struct virtual_root *root) {
  struct member *next = NULL;
  struct rondo_shared_bytes *part;
  for (uint32_t i = 0; i < root->member_count; i++) {
    struct member *m = &root->members[i];
    m->place = m->who ? root->gatherer->place(root->gather, m->who) : UINT32_MAX;
    if (!m->has_roster && !m->is_gone && m->place != UINT32_MAX &&
        (!next || m->place < next->place))
      next = m;
  }
  if (!next || next->was_given)
    return;
  next->was_given = true;
  for (uint32_t i = 0; (part = root->gatherer->part(root->gather, i)); i++)
    virtual_post_from_root(next->mesh, part);
}

static void root_finish(struct virtual_root *root) {
  if (root->is_closed || !root->gatherer->finish(root->gather, script_now_ns()))
    return;
  root->is_closed = true;
  root_give(root);
}

static void root_receive(struct virtual_root *root, const struct note *n) {
  struct member *m = root_member(root, n->from, true);
  uint64_t who = 0;
  struct rondo_shared_bytes *reply =
      root->gatherer->receive(root->gather, n->bytes->bytes, n->bytes->size, script_now_ns(), &who);
  if (m->who && m->who != who && !root->is_closed)
    root->gatherer->lose(root->gather, m->who);
  m->who = who;
  if (reply)
    virtual_post_from_root(n->from, reply);
  if (root->is_closed)
    root_give(root);
  else
    root_finish(root);
}

static void root_take(struct virtual_root *root, const struct note *n) {
  struct member *m = root_member(root, n->from, n->kind == MESSAGE && !root->is_ended);
  if (root->is_ended) {
    if (n->kind == MESSAGE)
      virtual_post_root_cut(n->from, REFUSED_NS);
    return;
  }
  if (n->kind == MESSAGE) {
    root_receive(root, n);
  } else if (m && n->kind == HAS_ROSTER) {
    m->has_roster = true;
  } else if (m) {
    m->is_gone = true;
    if (m->who && !root->is_closed)
      root->gatherer->lose(root->gather, m->who);
    else if (m->who)
      root_give(root);
  }
}

// True if the note has come.
static bool note_is_due(const struct virtual_root *root, const struct note *n) {
  if (n->due_ns > script_now_ns())
    return false;
  for (const struct note *before = root->first; before != n; before = before->next)
    if (before->from == n->from)
      return false;
  return root->is_ended || (virtual_process_is_running(root->process) &&
                            !virtual_is_cut(root->process, n->from->process));
}

static bool root_turn(struct virtual_root *root) {
  for (struct note **at = &root->first; *at; at = &(*at)->next) {
    struct note *n = *at;
    if (!note_is_due(root, n))
      continue;
    *at = n->next;
    if (root->end == &n->next)
      root->end = at;
    root_take(root, n);
    rondo_shared_bytes_put(n->bytes);
    free(n);
    return true;
  }
  if (!root->is_ended && !root->is_closed && virtual_process_is_running(root->process) &&
      root->gatherer->due(root->gather) <= script_now_ns())
    root_finish(root);
  return false;
}

bool virtual_roots_turn(void) {
  for (uint32_t i = 0; i < root_count; i++)
    if (root_turn(roots[i]))
      return true;
  return false;
}

uint64_t virtual_roots_due(void) {
  uint64_t due_ns = UINT64_MAX;
  for (uint32_t i = 0; i < root_count; i++) {
    const struct virtual_root *root = roots[i];
    for (const struct note *n = root->first; n; n = n->next)
      if (n->due_ns > script_now_ns() && n->due_ns < due_ns)
        due_ns = n->due_ns;
    if (root->is_ended || root->is_closed || !virtual_process_is_running(root->process))
      continue;
    uint64_t end_ns = root->gatherer->due(root->gather);
    due_ns = end_ns < due_ns ? end_ns : due_ns;
  }
  return due_ns;
}

// -------------------------------------------------------------------------- meshes ---

void virtual_root_post(struct rondo_mesh *from, struct rondo_shared_bytes *bytes) {
  struct virtual_root *root = root_find(&from->key);
  if (root)
    root_post(root, MESSAGE, from, bytes);
  else
    virtual_post_root_cut(from, REFUSED_NS);
}

void virtual_root_note_roster(struct rondo_mesh *mesh) {
  struct virtual_root *root = root_find(&mesh->key);
  if (root)
    root_post(root, HAS_ROSTER, mesh, NULL);
}

void virtual_roots_lose(struct rondo_mesh *mesh) {
  struct virtual_root *root = root_find(&mesh->key);
  if (root)
    root_post(root, GONE, mesh, NULL);
}

static void root_end(struct virtual_root *root) {
  if (root->is_ended)
    return;
  root->is_ended = true;
  for (uint32_t i = 0; i < root->member_count; i++)
    if (!root->members[i].has_roster && !root->members[i].is_gone)
      virtual_post_root_cut(root->members[i].mesh, virtual_delay_ns());
}

void virtual_roots_crash(uint32_t process) {
  for (uint32_t i = 0; i < root_count; i++)
    if (roots[i]->process == process)
      root_end(roots[i]);
}

// --------------------------------------------------------------------------- calls ---

int rondo_root_listen(const struct rondo_config *cfg, const struct rondo_root_gatherer *gatherer,
                      struct rondo_unique_id *id) {
  struct virtual_root *root = calloc(1, sizeof *root);
  if (!root || root_count == ROOTS)
    abort();
  root->key = virtual_job_add(id);
  root->process = virtual_process_self();
  root->gatherer = gatherer;
  root->gather = gatherer->create(cfg->join_timeout_ns);
  root->end = &root->first;
  roots[root_count++] = root;
  return RONDO_SUCCESS;
}

bool rondo_root_is_here(const struct rondo_job_key *job) {
  const struct virtual_root *root = root_find(job);
  return root && !root->is_ended;
}

bool rondo_root_is_gathering(const struct rondo_job_key *job) {
  const struct virtual_root *root = root_find(job);
  return root && !root->is_ended && !root->is_closed;
}

bool rondo_root_leave(const struct rondo_job_key *job) {
  struct virtual_root *root = root_find(job);
  if (root)
    root_end(root);
  return root != NULL;
}

void rondo_root_close(const struct rondo_job_key *job) { (void)rondo_root_leave(job); }

void rondo_root_counters(const struct rondo_job_key *job, struct rondo_mesh_counters *out) {
  (void)job;
  memset(out, 0, sizeof *out);
}

bool rondo_root_call(const struct rondo_job_key *job, const struct rondo_root_gatherer *gatherer,
                     void (*call)(void *gather, void *arg), void *arg) {
  struct virtual_root *root = root_find(job);
  struct rondo_shared_bytes *news;
  if (!root || root->is_ended || root->gatherer != gatherer ||
      root->process != virtual_process_self())
    return false;
  call(root->gather, arg);
  for (uint32_t i = 0; i < root->member_count; i++) {
    struct member *m = &root->members[i];
    while (m->who && !m->is_gone && (news = gatherer->news(root->gather, m->who)))
      virtual_post_from_root(m->mesh, news);
  }
  root_finish(root);
  return true;
}
