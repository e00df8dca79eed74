/*
 * The guard of a reference: a producer's run does not end while the consumer reads the producer's
 * own buffer, whatever fails at whatever moment; or, between processes (MAPPED), it ends at once,
 * and nothing comes of what the consumer has read by then.
 *
 *   queues/connector_core.h       try_begin_reading, try_end_reading (C5), try_shut (C6),
 *                                 consume (C3)
 *   daemon/core/context_core.h    rondo_gate_verdict (G2)
 *   daemon/core/primitive_core.h  rondo_primitive_attempt, rondo_chunk_execute
 *   daemon/core/block_execute_core.h  rondo_context_change_phase: DRAIN and FAILING
 *
 * The producer publishes two references in a run and waits until they are consumed. Each side has a
 * gate of its own, which anybody may close at any time, or never; the consumer learns of the
 * producer's failure by the connector alone. A producer that fails shuts the connector, and waits
 * until nothing is being read. What a run that has ended leaves behind is the application's again:
 * `buffer_is_free`. A consumer in another process may die at any step (MAPPED): it is never waited
 * for.
 *
 * SPIN knows the sequentially consistent order alone, which C5 and C6 have. The twins show
 * what would be possible with less. Twins that must fail:
 *   NO_ANNOUNCEMENT     the consumer looks whether it is shut and reads, saying nothing
 *   LATE_ANNOUNCEMENT   its announcement becomes visible after that look, as a plain store may
 *   EARLY_LOOK          the producer looks at the announcement before it shuts
 *   OWN_GATE            the consumer looks at its own gate instead of the connector
 *   NO_VALIDATION       with MAPPED: what was read counts without a second look
 *   EARLY_VALIDATION    with MAPPED: the second look comes before the end of the reading
 *   WAITS_FOR_DEAD      with MAPPED: the producer waits for the consumer all the same
 */
#if defined(NO_VALIDATION) || defined(EARLY_VALIDATION) || defined(WAITS_FOR_DEAD)
#define MAPPED
#endif
#define REFERENCES 2

bool producer_failed, consumer_failed; /* gates: G1, G2 */
bool shut;                             /* C5, C6 */
bool reading;                          /* C5, C6 */
byte published, consumed;              /* C1, C3 */
bool buffer_is_free, is_read;          /* what is to be proved; no words of the code */

active proctype producer() {
  bool busy;
  byte sent;
  do
  :: sent < REFERENCES && !producer_failed -> sent++; published++
  :: sent == REFERENCES && !producer_failed && consumed == REFERENCES -> break /* DRAIN */
  :: producer_failed -> /* FAILING */
#ifdef EARLY_LOOK
    busy = reading;
    shut = true;
#else
    shut = true;    /* C6 */
#if defined(MAPPED) && !defined(WAITS_FOR_DEAD)
    busy = false;
#else
    busy = reading; /* C6 */
#endif
#endif
    if
    :: !busy -> break
    :: else
    fi
  od;
#ifndef MAPPED
  assert(!is_read);
#endif
  buffer_is_free = true
}

active proctype consumer() {
  bool is_open, is_good;
  do
  :: consumed < published && !consumer_failed ->
#if !defined(NO_ANNOUNCEMENT) && !defined(LATE_ANNOUNCEMENT)
    reading = true; /* C5 */
#endif
#ifdef OWN_GATE
    is_open = !consumer_failed;
#else
    is_open = !shut; /* C5 */
#endif
#ifdef LATE_ANNOUNCEMENT
    reading = true;
#endif
    if
    :: is_open ->
      is_read = true;
      is_good = !buffer_is_free; /* the first byte */
#ifdef EARLY_VALIDATION
      is_open = !shut;
#endif
#ifdef MAPPED
      if
      :: goto dead
      :: true
      fi;
#endif
      is_good = is_good && !buffer_is_free; /* the last */
      is_read = false;
      reading = false; /* C5 */
#if defined(MAPPED) && !defined(NO_VALIDATION) && !defined(EARLY_VALIDATION)
      is_open = !shut; /* C5 */
#endif
      if
      :: is_open ->
        assert(is_good); /* it is published, and counts */
        consumed++       /* C3 */
      :: else -> break
      fi
    :: else ->
      reading = false; /* C5 */
      break
    fi
  :: consumed == REFERENCES -> break
  :: consumer_failed || producer_failed -> break
  od;
dead: skip
}

/* A member aborts, leaves, or registered something else; or nothing happens. Between processes a
 * consumer that has died, and one whose own gate has failed, come to the producer as a failure. */
active proctype trouble() {
  if
  :: producer_failed = true /* G1 */
  :: consumer_failed = true; producer_failed = true
#ifndef MAPPED
  :: true
#endif
  fi
}

ltl finished { <> buffer_is_free }
