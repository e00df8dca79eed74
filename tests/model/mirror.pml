/*
 * The mirror of a device: one warp at a time passes entries of the submission queue on to the
 * inboxes of the blocks and copies a gate, while blocks come and go.
 *
 * Block 0 quits whenever it has nothing to do. Block 1 stays: its launch is for a run that a stream
 * waits for, and as long as it is there the launcher may be unable to launch anything but for what
 * it sees, which is what block 0 has not taken out of the submission queue, and what it has queued.
 * Each run ends on block 0 when the gate is open, and on block 1 when the gate has failed: its part
 * has no peer. What a name in the code stands for has the same name here:
 *
 *   daemon/core/mirror_core.h      rondo_mirror_try_own, rondo_mirror_step, rondo_mirror_disown
 *   daemon/core/block_fetch_core.h rondo_block_fetch, rondo_block_release_entries
 *   daemon/cuda/cuda_launch_core.h rondo_cuda_launch_mirror, rondo_cuda_launch_reside
 *   daemon/cuda/cuda_launcher.c    daemon_is_lagging
 *
 * Accesses are sequentially consistent here; ptx_edges and the mutations show what each order is
 * needed for.
 *
 * Proved: no block waits in the end, whenever block 0 quits and whoever keeps the mirror; no two
 * warps keep it; what a mark announces is there. That all runs end is not proved here: it needs
 * that a warp with the mirror makes a step, which a residency gives it time for.
 *
 * Twins that must fail:
 *   RELEASED_BY_MIRROR  the mirror releases an entry of the SQ when it has passed it on
 *   KEPT_BY_BLOCK_0     only the warp of block 0 keeps the mirror
 *   NOT_DISOWNED        a warp whose block leaves keeps the mirror
 *   OWNED_BY_STORE      a warp takes the mirror by a load and a store
 *   MARK_FIRST          the mark of an inbox is stored before the entry
 *   GATE_COPIED_ONCE    a gate that was copied is not looked at again
 */
#define RUNS 2
#define NOBODY 2

#define CLOSED 0
#define OPEN 1
#define FAILED 2

byte submitted, released; /* entries of the SQ */
byte next;                /* the entry that the mirror passes on next */
bool written[RUNS];       /* the entries of the inboxes */
byte marked;              /* ... whose marks are stored */
byte accepted[2], ended[2];
byte gate, copy;
byte owner = NOBODY, keepers;
bool resident[2], stop[2], has_ended[2]; /* has_ended: the warp has seen the stop */

#define is_over (ended[0] == RUNS && ended[1] == RUNS)

proctype cpu() {
  do
  :: submitted < RUNS -> submitted++ /* S1 */
  :: gate != FAILED -> gate++        /* G1 */
  :: submitted == RUNS && gate == FAILED -> break
  od
}

/* rondo_mirror_step */
inline step() {
  assert(keepers == 1);
end_step:
  if
  :: next < submitted -> /* S2 */
#ifdef MARK_FIRST
    marked = next + 1;
    written[next] = true;
#else
    written[next] = true;
    marked = next + 1; /* S1 */
#endif
#ifdef RELEASED_BY_MIRROR
    released = next + 1;
#endif
    next++
#ifdef GATE_COPIED_ONCE
  :: copy == CLOSED && copy != gate -> copy = gate
#else
  :: copy != gate -> copy = gate /* G2, G3 */
#endif
  :: stop[me]
  fi
}

/* rondo_cuda_launch_mirror, in each residency of its block */
proctype warp(byte me) {
  bool owned;
end:
  do
  :: resident[me] && !has_ended[me] ->
    owned = false;
end_standing_by:
    do
    :: stop[me] -> break
#ifdef KEPT_BY_BLOCK_0
    :: !owned && me == 0 && owner == NOBODY ->
#else
    :: !owned && owner == NOBODY ->
#endif
#ifdef OWNED_BY_STORE
      owner = me;
      owned = true;
      keepers++
#else
      atomic {
        if
        :: owner == NOBODY -> owner = me; owned = true; keepers++ /* X2 */
        :: else
        fi
      }
#endif
    :: owned -> step()
    od;
    if
    :: owned ->
      keepers--;
#ifndef NOT_DISOWNED
      owner = NOBODY /* X1 */
#endif
    :: else
    fi;
    has_ended[me] = true
  od
}

/* A residency of block 0 ends when it has nothing to do, or is stuck. */
proctype block_0() {
  do
  :: is_over -> break
  :: resident[0] && marked > accepted[0] -> /* S2 */
    assert(written[accepted[0]]);
    accepted[0]++
  :: resident[0] && ended[0] < accepted[0] && copy != CLOSED -> ended[0]++
  :: resident[0] && (accepted[0] == ended[0] || copy == CLOSED) && marked == accepted[0] ->
    /* rondo_block_quit; an entry may be passed on from here on */
#ifndef RELEASED_BY_MIRROR
    released = accepted[0]; /* S3 */
#endif
    stop[0] = true;
    has_ended[0] -> resident[0] = false
  od
}

proctype block_1() {
  do
  :: ended[1] == RUNS -> break
  :: marked > accepted[1] ->
    assert(written[accepted[1]]);
    accepted[1]++
  :: ended[1] < accepted[1] && copy == FAILED -> ended[1]++
  od
}

/* daemon_is_lagging */
proctype launcher() {
  do
  :: is_over -> break
  :: !resident[0] && (released < submitted || accepted[0] > ended[0]) ->
    stop[0] = false;
    has_ended[0] = false;
    resident[0] = true
  od
}

init {
  atomic {
    resident[1] = true;
    run cpu();
    run warp(0);
    run warp(1);
    run block_0();
    run block_1();
    run launcher()
  }
}
