/*
 * Quit and start with submission, as the host driver does it: no wake-up is lost, and no run.
 *
 * One rank, one block, one worker, two threads that submit, of which one waits and helps, and a
 * peer. What a name in the code stands for has the same name here:
 *
 *   daemon/host/host_device.c  worker_main, worker_pass, worker_park, rondo_host_notify_submission
 *   daemon/host/host_block.c   rondo_host_block_drive, block_should_start
 *   daemon/host/host_wait.c    rondo_host_submit_inline, rondo_host_wait, daemon_sleep,
 *                              rondo_host_notify_completion
 *   daemon/core/block_core.h   rondo_block_step, rondo_block_quit
 *   daemon/core/block_ready_core.h     rondo_block_find_ready
 *   daemon/core/block_schedule_core.h  rondo_block_preempt
 *   runtime/rank/submit.c    run_submit
 *   runtime/complete/complete.c  rondo_coll_push, rondo_rank_service
 *
 * Time is a choice: whatever the clock may say happens at any moment. The two sleeps that another
 * party has to end, deep parking and a helper's, have no timeout here, so a wake-up that is lost
 * is a run that never ends. (The code has timeouts there as a second line of defence.) Only the
 * tick, which ends by the clock and not by a wake-up, ends by itself.
 *
 * Queues hold one entry and the device one run of a collective, so that every queue overflows.
 * The peer is the worst that there is: it does not preempt. It serves the collectives in an order
 * of its own and waits in each until this rank has visited it.
 *
 * Proved: `finished` under weak fairness, the assertions, and that nobody but the parked worker
 * is left waiting at the end. SPIN knows one memory order, the sequentially consistent one, which
 * is what H3, H4 and H7 have. Twins that exchange two accesses show what a weaker order would
 * allow.
 *
 * Twins that must fail:
 *   NO_RECHECK        the worker parks deep without looking again after it said so
 *   EARLY_STATE       the submitter reads the worker's state before it counts its run
 *   LATE_SNAPSHOT     the worker reads the signal after its last look
 *   EARLY_SIGNAL      a submission adds to the signal before it says that nobody else need
 *   LATE_SWAP         a submission wakes the worker before it says that nobody else need
 *   LATE_DONE_WORD    a helper reads the done word after its last look
 *   EARLY_WAITERS     who takes a completion looks for waiters before it has taken it
 *   UNCOUNTED_RUNS    runs are counted after they are pushed
 *   REWIND_ON_START   a block that comes back begins at the front of its task queue, even if it
 *                     left before it had been round it
 *   TURN_NOT_TAKEN    a block that leaves a stuck collective to quit comes back to that one
 *   READY_IS_NO_REASON  a block that has quit is not started because a collective can move
 *   QUIT_DROPS_WORK   a block that quits forgets its task queue
 */
#define A 0
#define B 1
#define COLLECTIVES 2
#define NONE 255
#ifndef RUNS_OF_A
#define RUNS_OF_A 1
#endif

#define RUNNING 0
#define TICK 1
#define DEEP 2

/* The host driver's words. */
byte outstanding; /* H3 */
byte state;       /* H3: of the worker */
byte signal;      /* H4 */
byte done_word, done_waiters, helpers;
#ifdef EARLY_WAITERS
byte early_waiters;
#endif
bool worker_sleeps, helper_sleeps;

/* The rank's: guarded by the lock. */
bool locked;
byte unpushed[COLLECTIVES], on_device[COLLECTIVES], completed[COLLECTIVES];
bool in_overflow[COLLECTIVES];
bool has_overflow;

/* The queues: one entry each. */
byte sq = NONE;
byte cq = NONE;

/* The block: touched by whoever owns it. */
bool owner, resident, stalled, pass_progressed, passed;
byte queue[COLLECTIVES];
byte count, cursor;

/* The peer: what it has been sent, and what it has answered. */
byte touched[COLLECTIVES], ready[COLLECTIVES];
byte runs[COLLECTIVES]; /* runs of each that have begun here */

#define NEEDS_SERVICE (cq != NONE || has_overflow)

#define finished_all (completed[A] == RUNS_OF_A && completed[B] == 1 && outstanding == 0)

/* ------------------------------------------------------------------ runtime --- */

/* rondo_coll_push: the lock is held. */
inline coll_push(c) {
  if
  :: unpushed[c] > 0 && on_device[c] < 1 && sq == NONE ->
    sq = c;
    unpushed[c]--;
    on_device[c]++
  :: unpushed[c] > 0 && on_device[c] < 1 && sq != NONE ->
    in_overflow[c] = true;
    has_overflow = true
  :: else
  fi
}

inline count_run() {
  outstanding++
}

inline submit(c) {
  atomic { !locked -> locked = true; unpushed[c]++ };
#ifndef UNCOUNTED_RUNS
  count_run();
#endif
  atomic { coll_push(c); locked = false }
#ifdef UNCOUNTED_RUNS
  ;
  count_run()
#endif
}

/* rondo_host_notify_submission: `seen` is a byte of the caller. The code also counts urgent
 * submissions to a running worker, which can only end a tick, and a tick is not modelled here. */
inline notify(urgent, seen) {
  seen = state; /* H3 */
  notify_if(urgent, seen)
}

inline notify_if(urgent, seen) {
  if
  :: seen == DEEP || (seen == TICK && urgent) ->
#ifdef EARLY_SIGNAL
    signal++;
#endif
#ifdef LATE_SWAP
    signal++;
    worker_sleeps = false;
    atomic {
      if
      :: state == seen -> state = RUNNING
      :: else
      fi;
      seen = RUNNING
    }
#else
    if
    :: atomic { state == seen -> state = RUNNING; seen = RUNNING };
#ifndef EARLY_SIGNAL
      signal++; /* H4 */
#endif
      worker_sleeps = false
    :: atomic { state != seen -> seen = RUNNING }
    fi
#endif
  :: atomic { else -> seen = RUNNING }
  fi
}

inline begin_run(c, urgent, seen) {
#ifdef EARLY_STATE
  seen = state;
  submit(c);
  notify_if(urgent, seen)
#else
  submit(c);
  notify(urgent, seen)
#endif
}

/* rondo_rank_service: never waits for the lock. */
inline service(moved, c) {
#ifdef EARLY_WAITERS
  early_waiters = done_waiters;
#endif
  if
  :: atomic {
      NEEDS_SERVICE && !locked ->
      c = cq;
      if
      :: c != NONE ->
        cq = NONE;
        assert(on_device[c] > 0);
        on_device[c]--;
        completed[c]++;
        coll_push(c)
      :: else
      fi;
      if
      :: sq == NONE && in_overflow[A] -> in_overflow[A] = false; moved = true; coll_push(A)
      :: sq == NONE && in_overflow[B] -> in_overflow[B] = false; moved = true; coll_push(B)
      :: else
      fi;
      has_overflow = in_overflow[A] || in_overflow[B]
    };
    if
    :: c != NONE ->
      atomic { moved = true; assert(outstanding > 0); outstanding-- }; /* H7 */
#ifdef EARLY_WAITERS
      c = early_waiters;
#else
      c = done_waiters; /* H7 */
#endif
      if
      :: atomic { c > 0 -> c = 0; done_word++ }; helper_sleeps = false
      :: c == 0
      fi
    :: atomic { else -> c = 0 }
    fi
  :: else
  fi
}

/* -------------------------------------------------------------------- block --- */

inline next_task() {
  cursor++;
  if
  :: cursor >= count ->
    cursor = 0;
    passed = true;
    stalled = !pass_progressed;
    pass_progressed = false
  :: else
  fi
}

inline remove_task() {
  count--;
  if
  :: cursor < count -> queue[cursor] = queue[cursor + 1]
  :: else -> cursor = 0; pass_progressed = true; passed = true
  fi
}

inline quit() {
#ifdef QUIT_DROPS_WORK
  count = 0;
  cursor = 0;
#endif
  resident = false
}

/* The wait of a collective in the queue is over: rondo_block_find_ready. */
#define can_move(c)                                                                                \
  (touched[c] < runs[c] || (ready[c] == runs[c] && cq == NONE))
#define finds_ready                                                                                \
  ((count > 0 && can_move(queue[0])) || (count > 1 && can_move(queue[1])))

/* rondo_block_start, if there is reason to: block_should_start. A block whose collectives cannot
 * move is started after a pause; nobody may depend on that, so here the pause may last for ever. */
inline start() {
  if
#ifdef READY_IS_NO_REASON
  :: resident || sq == NONE
#else
  :: resident || (sq == NONE && !finds_ready)
#endif
  :: !resident && (sq != NONE || count > 0) ->
    resident = true;
    stalled = true;
    pass_progressed = false;
    if
#ifdef REWIND_ON_START
    :: true -> cursor = 0
#else
    :: passed -> cursor = 0
    :: !passed
#endif
    fi;
    passed = false
  fi
}

/* Works on the scheduled collective: sends, and ends the run if the peer has answered. */
inline execute(moved) {
  if
  :: touched[queue[cursor]] < runs[queue[cursor]] ->
    touched[queue[cursor]]++;
    pass_progressed = true;
    moved = true
  :: else
  fi;
  if
  :: ready[queue[cursor]] == runs[queue[cursor]] && cq == NONE ->
    cq = queue[cursor];
    pass_progressed = true;
    moved = true;
    remove_task()
  :: else
  fi
}

/* rondo_block_step. The clock decides how a step ends: see block_ends. */
inline step(moved) {
  if
  :: count == 0 || stalled ->
    stalled = false;
    if
    :: sq != NONE ->
      queue[count] = sq;
      runs[sq]++;
      count++;
      sq = NONE;
      moved = true
    :: else
    fi
  :: else
  fi;
  if
  :: count > 0 -> execute(moved)
  :: else
  fi
}

/* A budget ends, or the quit period, or the residency; who is stuck does not stay so for ever. */
inline block_ends(moved) {
  if
  :: moved
  :: moved -> quit()
  :: !moved && count > 0 -> next_task()
#ifdef TURN_NOT_TAKEN
  :: !moved && count > 0 -> quit()
#else
  :: !moved && count > 0 -> next_task(); quit()
#endif
  :: !moved && count == 0
  :: !moved && count == 0 -> quit()
  fi
}

/* Whoever takes the owner word steps the block once; whoever fails goes on. */
inline drive(moved, stepped) {
  if
  :: atomic { !owner -> owner = true; start() };
    atomic {
      if
      :: resident -> step(stepped); block_ends(stepped)
      :: else
      fi;
      moved = moved || stepped;
      stepped = false
    };
    owner = false /* H1 */
  :: else
  fi
}

/* ------------------------------------------------------------------- worker --- */

/* worker_pass over the one block. */
inline pass(also_helped) {
  unfinished = false;
  if
  :: outstanding == 0 && !NEEDS_SERVICE && !resident
  :: else ->
    unfinished = true;
    if
    :: !also_helped && helpers > 0
    :: else ->
      drive(moved, stepped);
      service(moved, c);
      is_resident = resident
    fi
  fi
}

inline forget() {
  moved = false;
  is_resident = false;
  unfinished = false;
  snapshot = 0
}

active proctype worker() {
  byte snapshot, c;
  bool moved, stepped, unfinished, is_resident, after_tick;
again:
  snapshot = signal; /* H4 */
  pass(after_tick);
  after_tick = false;
  if
  :: atomic { moved || is_resident -> forget() }; goto again
  :: else
  fi;
  after_tick = true;
  if
  :: atomic { state = TICK; forget() }; state = RUNNING; goto again
  :: !unfinished
  fi;
  state = DEEP; /* H3 */
#ifndef NO_RECHECK
  pass(false);
  if
  :: atomic { unfinished -> forget(); state = RUNNING }; goto again
  :: else
  fi;
#endif
#ifdef LATE_SNAPSHOT
  snapshot = signal;
#endif
  /* The futex compares and puts to sleep in one step. */
  atomic {
    if
    :: signal == snapshot -> worker_sleeps = true
    :: else
    fi;
    forget()
  };
end_parked:
  !worker_sleeps;
  state = RUNNING;
  goto again
}

/* --------------------------------------------------------------- application --- */

/* Runs of A with callbacks: nobody waits for them. */
active proctype submitter() {
  byte seen, i;
  do
  :: i < RUNS_OF_A -> begin_run(A, true, seen); i++
  :: else -> break
  od
}

/* daemon_sleep. */
inline daemon_sleep() {
#ifndef LATE_DONE_WORD
  word = done_word;
#endif
  done_waiters++;
  helpers--;
  if
  :: completed[B] == 0 ->
#ifdef LATE_DONE_WORD
    word = done_word;
#endif
    atomic {
      if
      :: done_word == word -> helper_sleeps = true
      :: else
      fi
    };
    !helper_sleeps
  :: else
  fi;
  helpers++;
  atomic { word = 0; done_waiters-- }
}

/* A run of B, and rondo_wait for it. */
active proctype waiter() {
  byte seen, word, c;
  bool moved, stepped;
#ifdef EARLY_STATE
  seen = state;
#endif
  submit(B);
  if
  :: drive(moved, stepped); /* rondo_host_submit_inline */
    service(moved, c);
    moved = false
  :: true
  fi;
  if
#ifdef EARLY_STATE
  :: outstanding > 0 -> notify_if(false, seen)
#else
  :: outstanding > 0 -> notify(false, seen)
#endif
  :: else
  fi;
  helpers++;
  do
  :: drive(moved, stepped);
    service(moved, c);
    if
    :: completed[B] == 1 -> break
    :: completed[B] == 0 && !moved -> daemon_sleep()
    :: atomic { completed[B] == 0 -> moved = false }
    fi
  od;
  atomic { moved = false; helpers-- };
  if
  :: outstanding > 0 -> notify(true, seen)
  :: else
  fi
}

/* ---------------------------------------------------------------------- peer --- */

inline answer(c) {
  atomic { touched[c] > ready[c] -> ready[c]++ }
}

active proctype peer() {
  do
  :: ready[A] < RUNS_OF_A -> answer(A)
  :: ready[B] < 1 -> answer(B)
  :: ready[A] == RUNS_OF_A && ready[B] == 1 -> break
  od
}

ltl finished { <> finished_all }
