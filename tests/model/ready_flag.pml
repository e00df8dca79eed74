/*
 * The ready flag of a collective: whoever may have ended a wait of the collective sets the flag,
 * and a look round of the block looks only at waits whose flag it has taken.
 *
 * One block has one collective, and two peers move for it: each makes a word visible (a slot's mark
 * or a credit, or a gate) and then sets the flag. The run needs both words, one after the other.
 * What a name in the code stands for has the same name here:
 *
 *   queues/connector_core.h            rondo_connector_publish, rondo_connector_set_flag
 *   daemon/core/block_ready_core.h     rondo_block_arm_wait, rondo_block_note_wait,
 *                                      rondo_block_take_flags, rondo_block_is_ready
 *   daemon/core/block_schedule_core.h  rondo_block_try_switch, rondo_block_preempt
 *
 * Each thread has a store buffer, as on x86: its stores become visible in their order, each at some
 * later time. An exchange waits for the stores of its own thread.
 *
 * Blind looks are left out, so a flag that is lost is a collective that is never looked at again.
 *
 * Proved: the run takes all words in the end.
 *
 * Twins that must fail:
 *   FLAG_BEFORE_DATA   a peer sets the flag before it issues what it publishes
 *   FLAG_LOST          the second peer sets no flag
 *   LOOKS_BEFORE_FLAG  a peer loads the flag, and does not store when it sees 1
 *   TAKES_BY_STORE     the flag is taken by a load and a plain store
 *   ARMS_AFTER_TAKING  a collective leaves the ready set after the round has taken its flag
 */
#define PEERS 2
#define BLOCK 2
#define SET 10
#define CLEAR 11

bool visible[PEERS]; /* the words: C1, C3, G1 */
bool flag;           /* C9, C10 */
bool ready;          /* RONDO_READY_LOOK; the block's own */
byte taken;          /* words that the run has used, in their order */
chan stores[3] = [3] of { byte };

proctype store_buffer(byte me) {
  byte what;
end:
  do
  :: atomic {
      stores[me]?what ->
      if
      :: what < PEERS -> visible[what] = true
      :: what == SET -> flag = true
      :: what == CLEAR -> flag = false
      fi;
      what = 0
    }
  od
}

#define is_flushed(me) (len(stores[me]) == 0)

/* rondo_connector_set_flag */
inline set_flag(me) {
#ifdef LOOKS_BEFORE_FLAG
  if
  :: flag || stores[me]??[SET]
  :: else -> stores[me]!SET
  fi
#else
  stores[me]!SET /* C9 */
#endif
}

proctype peer(byte me) {
#ifdef FLAG_BEFORE_DATA
  set_flag(me);
  stores[me]!me
#else
  stores[me]!me;
#ifdef FLAG_LOST
  if
  :: me == 0 -> set_flag(me)
  :: else
  fi
#else
  set_flag(me)
#endif
#endif
}

/* rondo_block_take_flags */
inline take_flags() {
#ifdef TAKES_BY_STORE
  if
  :: flag && !stores[BLOCK]??[CLEAR] -> stores[BLOCK]!CLEAR; ready = true
  :: else
  fi
#else
  if
  :: flag -> atomic { is_flushed(BLOCK) -> ready = ready || flag; flag = false } /* C10 */
  :: !flag
  fi
#endif
}

/* The block: it works on the collective, leaves it when it is stuck, and comes back when the ready
   set and its wait say so. Where it leaves by preemption, the next round looks at the wait. */
proctype block() {
  bool stuck;
attempt:
  stuck = false;
  do
  :: taken < PEERS && !stuck ->
    if
    :: atomic { visible[taken] -> taken++ }
    :: atomic { !visible[taken] -> stuck = true }
    fi
  :: else -> break
  od;
  if
  :: taken == PEERS -> goto done
  :: else
  fi;
  if
  :: /* rondo_block_try_switch */
#ifdef ARMS_AFTER_TAKING
    take_flags();
    ready = false
#else
    ready = false; /* rondo_block_arm_wait */
    take_flags()
#endif
  :: /* a round that found nothing, then rondo_block_preempt */
    ready = false;
    take_flags();
    ready = true /* rondo_block_note_wait */
  fi;
look: /* rondo_block_is_ready, in this round and later ones */
  do
  :: ready ->
    if
    :: visible[taken] -> goto attempt
    :: !visible[taken] -> ready = false
    fi
  :: !ready && flag -> take_flags()
  od;
done:
  skip
}

init {
  atomic {
    run store_buffer(0);
    run store_buffer(1);
    run store_buffer(BLOCK);
    run peer(0);
    run peer(1);
    run block()
  }
}

ltl finished { <> (taken == PEERS) }
