/*
 * An event count: a thread that sleeps beside another process is woken when that process has moved.
 *
 * A process has two threads that sleep, each until two other processes have moved, and one event
 * count. Names are those of the code:
 *
 *   base/event_count.h  rondo_event_count_prepare_wait, rondo_event_count_notify
 *   base/futex.h  rondo_futex_wait_any
 *   daemon/host/host_wait.c   daemon_help, daemon_sleep
 *   daemon/host/host_block.c  block_take_turn
 *
 * There is no fence between the move and the load of `has_waiters` (B4), so each process that moves
 * has a store buffer here: its move is issued, and becomes visible at some later time. The move is
 * visible before a swap or an addition of its process, which wait for the stores before them, and
 * before the end of a short sleep that began after the move was issued. An announcement is followed
 * by a fence (B3).
 *
 * A short sleep may end at any time. A long sleep has no timeout here, so a thread that misses a
 * wake-up sleeps for ever. Other wake-ups of a sleeper and the ticks of the worker are left out.
 *
 * Proved: no thread is left asleep when all has been moved; with one sleeper also that it ends,
 * under weak fairness. A probe before the announcement would be correct too: the first sleep is
 * short, and ends with another probe.
 *
 * The code tells a new announcement by the time at which `has_waiters` became 1
 * (rondo_event_count_is_new).
 *
 * Twins that must fail:
 *   FIRST_SLEEP_LONG   the first sleep after a new announcement is long, too
 *   FORGETS_NOTIFY     a notification between two sleeps does not make the second of them short
 *   EARLY_WAKE_COUNTS  a short sleep that was ended early counts as one that lasted
 *   LATE_COUNT         the sleeper reads `count` after its last probe
 *   ONE_WAIT           the sleeper announces once, and not again after a notification
 *   EARLY_NOTIFY       a process notifies before it issues what it moves
 *   SILENT_NOTIFY      a process wakes the sleepers, and leaves `count` as it is
 */
#define MOVERS 2
#ifndef SLEEPERS
#define SLEEPERS 2
#endif

bool has_waiters; /* B3, B4 */
byte count;   /* the futex */
bool asleep[2];
bool issued[MOVERS], visible[MOVERS]; /* each has moved, as it and as others see it */
byte ended;                           /* no word of the code: sleepers who have seen all */

#define sees_all (visible[0] && visible[1])

/* --------------------------------------------------------------- who moves --- */

/* rondo_event_count_notify. The swap waits for the stores of its process. */
inline notify(me, notifies) {
  if
  :: has_waiters -> /* B4 */
    atomic { visible[me] = issued[me]; notifies = has_waiters; has_waiters = false };
    if
    :: notifies ->
#ifndef SILENT_NOTIFY
      count++;
#endif
      atomic { asleep[0] = false; asleep[1] = false; notifies = false }
    :: else
    fi
  :: else
  fi
}

/* block_take_turn, of a block that moves. */
proctype mover(byte me) {
  bool notifies;
#ifdef EARLY_NOTIFY
  notify(me, notifies);
  issued[me] = true
#else
  issued[me] = true;
  notify(me, notifies)
#endif
}

proctype store_buffer(byte me) {
  atomic { issued[me] -> visible[me] = true }
}

/* -------------------------------------------------------------- who sleeps --- */

inline look() {
  if
  :: sees_all -> goto done
  :: else
  fi
}

inline prepare_wait() {
  if
  :: !has_waiters -> has_waiters = true /* B3 */
  :: else
  fi
}

/* daemon_help, and daemon_sleep. */
proctype sleeper(byte me) {
  byte seen, seen_before; /* `count` at this sleep, and at the one before */
  bool before[MOVERS];    /* moves that had been issued when it fell asleep */
  bool is_old;            /* the wish has lasted for a short sleep */
#ifdef ONE_WAIT
  bool has_announced;
#endif
again:
  look(); /* of the helper that is awake */
#ifndef LATE_COUNT
  seen = count;
#endif
#ifdef ONE_WAIT
  if
  :: !has_announced -> prepare_wait(); has_announced = true
  :: else
  fi;
#else
  prepare_wait();
#endif
  look();
#ifdef LATE_COUNT
  seen = count;
#endif
#if defined(FIRST_SLEEP_LONG)
  is_old = true;
#elif !defined(FORGETS_NOTIFY)
  is_old = is_old && seen == seen_before;
#endif
  /* The futex compares and puts to sleep in one step. */
  atomic {
    seen_before = seen;
    asleep[me] = count == seen;
    before[0] = issued[0];
    before[1] = issued[1]
  };
  if
  :: atomic {
      !asleep[me] ->
#ifdef EARLY_WAKE_COUNTS
      is_old = true
#else
      is_old = false
#endif
    }
  :: atomic {
      !is_old && (visible[0] || !before[0]) && (visible[1] || !before[1]) ->
      asleep[me] = false;
#ifdef FORGETS_NOTIFY
      is_old = count == seen
#else
      is_old = true
#endif
    }
  fi;
  goto again;
done:
  ended++
}

init {
  atomic {
    run mover(0);
    run mover(1);
    run store_buffer(0);
    run store_buffer(1);
    run sleeper(0);
    if
    :: SLEEPERS > 1 -> run sleeper(1)
    :: else
    fi
  }
}

ltl finished { <> (ended == SLEEPERS) }
