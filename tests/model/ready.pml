/*
 * The byte of a block: whoever has something for the block sets the byte, and threads that look
 * for work visit the block only while the byte is set.
 *
 * There is one block. Two peers publish to it, its rank submits a run and may step the block once,
 * and two visitors look for work. What a name in the code stands for has the same name here:
 *
 *   queues/connector_core.h  rondo_connector_publish, rondo_connector_set_ready
 *   runtime/rank/submit.c    run_submit, rondo_rank_run
 *   daemon/host/host_wait.c       block_drive, block_is_idle, block_try_steal, rondo_host_poll
 *   daemon/host/host_ready.h      rondo_host_ready_set, rondo_host_ready_clear
 *
 * Each thread has a store buffer, as on x86: its stores become visible in their order, each at
 * some later time. A swap and an addition wait for the stores of their own thread. A thread sees
 * its own stores at once.
 *
 * A step takes at most one thing: the entry of a run, or what a peer has published for a run whose
 * entry has been taken. A step that takes nothing has looked for each of them, one after the other.
 *
 * Blind rounds are left out, and so are workers and threads that wait for the rank. A mark that is
 * lost is therefore a block that is never stepped.
 *
 * Proved: everything that was published is taken in the end, with two peers, and with one peer that
 * may be a run ahead of two runs. With one peer and one run also that this end comes, under weak
 * fairness.
 *
 * Twins that must fail:
 *   TOLD_BEFORE_DATA        a peer sets the byte before it issues what it publishes
 *   LOOKS_BEFORE_TELLING    a peer loads the byte, and does not store when it sees 1
 *   CLEARS_AFTER_STEP       the byte is taken back after the step instead of before it
 *   CLEARS_WITHOUT_SWAP     the byte is taken back by a plain store
 *   IDLE_NOT_CHECKED_AGAIN  is_idle does not look at `outstanding` again after the swap
 *   IDLE_NOT_SET_AGAIN      is_idle looks again, and leaves the byte at 0 when it finds a run
 *   MOVED_NOT_SET           the byte is not set again after a step that has taken something
 */
#ifndef RUNS
#define RUNS 1
#endif
#if RUNS > 1 || defined(ONE_PEER)
#define PEERS 1
#define RANK 1    /* the thread of the rank; those before it are peers, the two after it visitors */
#define THREADS 4
#define THINGS 2  /* of each run: what each peer publishes, and the entry, which has number RANK */
#else
#define PEERS 2
#define RANK 2
#define THREADS 5
#define THINGS 3
#endif

bool ready;           /* the byte: C7, C8 */
bool owned;           /* H1, H2 */
bool outstanding;     /* of one run at a time */
byte visible[THINGS]; /* so many are there */
byte taken[THINGS];   /* ... and have been taken, by whoever owned the block */
byte ended;           /* runs of which all has been taken */

/* What waits in a store buffer; a thing by its number. */
#define SET 10
#define CLEAR 11
#define DISOWN 12
#define EXPECT 13
chan stores[THREADS] = [4] of { byte };

proctype store_buffer(byte me) {
  byte what;
end:
  do
  :: atomic {
      stores[me]?what ->
      if
      :: what < THINGS -> visible[what]++
      :: what == SET -> ready = true
      :: what == CLEAR -> ready = false
      :: what == DISOWN -> owned = false
      :: what == EXPECT -> outstanding = true
      fi;
      what = 0
    }
  od
}

#define is_flushed(me) (len(stores[me]) == 0)
#define sees_ready(me) (ready || stores[me]??[SET])

/* rondo_host_ready_set, rondo_connector_set_ready */
#define set(me) stores[me]!SET /* C7 */

/* rondo_host_ready_clear */
inline clear(me) {
#ifdef CLEARS_WITHOUT_SWAP
  stores[me]!CLEAR
#else
  if
  :: sees_ready(me) -> atomic { is_flushed(me) -> ready = false } /* C8 */
  :: else
  fi
#endif
}

/* --------------------------------------------------------- who owns the block --- */

/* A peer may be a run ahead. */
#define can_take(i) (taken[i] < visible[i] && (i == RANK || taken[i] < taken[RANK]))

/* rondo_host_block_drive */
inline step(i, moved) {
  i = 0;
  do
  :: i < THINGS && !moved ->
    if
    :: atomic { can_take(i) -> taken[i]++; moved = true }
    :: atomic { else -> i++ }
    fi
  :: else -> break
  od;
  i = 0
}

inline drive(me, i, moved) {
#ifndef CLEARS_AFTER_STEP
  clear(me);
#endif
  step(i, moved);
#ifdef CLEARS_AFTER_STEP
  clear(me);
#endif
#ifndef MOVED_NOT_SET
  if
  :: moved -> set(me)
  :: else
  fi;
#endif
  moved = false
}

/* The rest of block_try_steal, and of daemon_step_blocks. A run is counted as ended under the
   rank's lock, so after it was counted as submitted. */
#define is_over (taken[0] > ended && taken[PEERS - 1] > ended)
inline visit(me, i, moved) {
  if
  :: atomic { is_flushed(me) && !owned -> owned = true }; /* H2 */
    drive(me, i, moved);
    stores[me]!DISOWN; /* H1 */
    if
    :: atomic { is_over && is_flushed(me) && outstanding -> outstanding = false; ended++ }
    :: !is_over
    fi
  :: owned && !stores[me]??[DISOWN]
  fi
}

/* ------------------------------------------------------ who has something for it --- */

/* rondo_connector_publish */
proctype peer(byte me) {
  byte runs;
  do
  :: runs < RUNS ->
#ifdef TOLD_BEFORE_DATA
    set(me);
    stores[me]!me;
#else
    stores[me]!me;
#ifdef LOOKS_BEFORE_TELLING
    if
    :: sees_ready(me)
    :: else -> set(me)
    fi;
#else
    set(me);
#endif
#endif
    runs++
  :: else -> break
  od
}

/* -------------------------------------------------------------- who looks for work --- */

/* blocks_steal, block_try_steal and block_is_idle. */
proctype visitor(byte me) {
  byte i;
  bool moved;
next:
  if
  :: ended == RUNS -> goto done
  :: sees_ready(me)
  fi;
  if
  :: outstanding
  :: else ->
    clear(me);
#ifdef IDLE_NOT_CHECKED_AGAIN
    goto next;
#else
    if
    :: outstanding
    :: else -> goto next
    fi;
#ifndef IDLE_NOT_SET_AGAIN
    set(me);
#endif
#endif
  fi;
  visit(me, i, moved);
  goto next;
done:
  skip
}

/* submit, rondo_host_poll or not, and rondo_host_notify_submission. It starts the other
   processes. */
active proctype rank() {
  byte runs, i;
  bool moved;
  atomic {
    do
    :: i < THREADS ->
      run store_buffer(i);
      if
      :: i < RANK -> run peer(i)
      :: i > RANK -> run visitor(i)
      :: else
      fi;
      i++
    :: else -> break
    od;
    i = 0
  };
  do
  :: runs < RUNS ->
    stores[RANK]!RANK;
    stores[RANK]!EXPECT;
    if
    :: visit(RANK, i, moved)
    :: true
    fi;
    set(RANK);
    runs++;
    ended == runs
  :: else -> break
  od
}

ltl finished { <> (ended == RUNS) }
