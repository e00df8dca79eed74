/*
 * The bell of a process: who sleeps beside another process is woken when that has moved something.
 *
 * A process with two threads that sleep, each for all that two other processes move, and share one
 * bell. What a name in the code stands for has the same name here:
 *
 *   base/bell.h   rondo_bell_want, rondo_bell_ring
 *   base/futex.h  rondo_futex_wait_any
 *   daemon/host/help.c     stay, sleep_on_done
 *   daemon/host/blocks.c   take_turn
 *
 * There is no fence between the move and the look at `wanted` (B4), so each process that moves
 * has a store buffer here: its move is issued, and visible at some later time. The move is
 * visible before a swap or an addition of its process, which wait for the stores before them, and
 * before the end of a short sleep that began after the move was issued. A wish has a fence behind
 * it (B3).
 *
 * A short sleep may end at any time; a long one has no timeout here, so a wake-up that is lost is
 * a thread that sleeps for ever. The other wake-ups of a sleeper and the ticks of the worker are
 * left out.
 *
 * Proved: nobody is left asleep when all has been moved; if one thread sleeps, also that it ends,
 * under weak fairness. A look before the wish instead of after it would do: the first sleep is
 * short, and ends with another look.
 *
 * The code tells a new wish by the time at which `wanted` became 1 (rondo_bell_is_new).
 *
 * Twins that must fail:
 *   FIRST_SLEEP_LONG   the first sleep behind a new wish is long, too
 *   FORGETS_RING       a ring between two sleeps does not make the second of them short
 *   EARLY_WAKE_COUNTS  a short sleep that somebody ended counts as one that lasted
 *   LATE_RUNG          the sleeper reads `rung` after its last look
 *   ONE_WISH           the sleeper says so once, and not again after a ring
 *   EARLY_RING         a process rings before it issues what it moves
 *   SILENT_RING        a process wakes those who sleep, and leaves `rung` as it is
 */
#define MOVERS 2
#ifndef SLEEPERS
#define SLEEPERS 2
#endif

bool wanted; /* B3, B4 */
byte rung;   /* the futex */
bool asleep[2];
bool issued[MOVERS], visible[MOVERS]; /* each has moved, as it and as others see it */
byte ended;                           /* no word of the code: sleepers who have seen all */

#define sees_all (visible[0] && visible[1])

/* --------------------------------------------------------------- who moves --- */

/* rondo_bell_ring. The swap waits for the stores of its process. */
inline ring(me, rings) {
  if
  :: wanted -> /* B4 */
    atomic { visible[me] = issued[me]; rings = wanted; wanted = false };
    if
    :: rings ->
#ifndef SILENT_RING
      rung++;
#endif
      atomic { asleep[0] = false; asleep[1] = false; rings = false }
    :: else
    fi
  :: else
  fi
}

/* take_turn, of a block that moves. */
proctype mover(byte me) {
  bool rings;
#ifdef EARLY_RING
  ring(me, rings);
  issued[me] = true
#else
  issued[me] = true;
  ring(me, rings)
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

inline want() {
  if
  :: !wanted -> wanted = true /* B3 */
  :: else
  fi
}

/* stay, and sleep_on_done. */
proctype sleeper(byte me) {
  byte seen, seen_before; /* `rung` at this sleep, and at the one before */
  bool before[MOVERS];    /* moves that had been issued when it fell asleep */
  bool is_old;            /* the wish has lasted for a short sleep */
#ifdef ONE_WISH
  bool has_wished;
#endif
again:
  look(); /* of the helper that is awake */
#ifndef LATE_RUNG
  seen = rung;
#endif
#ifdef ONE_WISH
  if
  :: !has_wished -> want(); has_wished = true
  :: else
  fi;
#else
  want();
#endif
  look();
#ifdef LATE_RUNG
  seen = rung;
#endif
#if defined(FIRST_SLEEP_LONG)
  is_old = true;
#elif !defined(FORGETS_RING)
  is_old = is_old && seen == seen_before;
#endif
  /* The futex compares and puts to sleep in one step. */
  atomic {
    seen_before = seen;
    asleep[me] = rung == seen;
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
#ifdef FORGETS_RING
      is_old = rung == seen
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
