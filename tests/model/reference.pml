/*
 * The guard of a reference: a producer's run does not end while the consumer reads the producer's
 * own buffer, whatever fails at whatever moment.
 *
 *   queues/connector_core.h       reading_begin, reading_end (C5), is_read (C6), consume (C3)
 *   daemon/core/context_core.h    rondo_gate_verdict (G2)
 *   daemon/core/primitive_core.h  rondo_primitive_attempt
 *   daemon/core/block_core.h      rondo_context_change_phase: DRAIN and FAILING
 *
 * The producer publishes two references in a run and waits until they are consumed; if the
 * communicator fails (anybody may close its gate, at any time), it waits until none is being read.
 * What a run that has ended leaves behind is the application's again: `buffer_is_free`.
 *
 * SPIN knows the sequentially consistent order alone, which C5, C6, G1 and G2 have. The twins show
 * what would be possible with less. Twins that must fail:
 *   NO_ANNOUNCEMENT     the consumer looks at the gate and reads, saying nothing
 *   LATE_ANNOUNCEMENT   its announcement becomes visible after its look at the gate, as a plain
 *                       store may
 *   EARLY_LOOK          the producer looks at the announcement before it knows of the failure
 */
#define REFERENCES 2

bool gate_failed;             /* G1, G2 */
bool reading;                 /* C5, C6 */
byte published, consumed;     /* C1, C3 */
bool buffer_is_free, is_read; /* what is to be proved; no words of the code */

active proctype producer() {
  bool busy;
  byte sent;
  do
  :: sent < REFERENCES && !gate_failed -> sent++; published++
  :: sent == REFERENCES && !gate_failed && consumed == REFERENCES -> break /* DRAIN */
#ifdef EARLY_LOOK
  :: !gate_failed ->
    busy = reading;
    if
    :: gate_failed && !busy -> break
    :: else
    fi
#endif
  :: gate_failed -> /* FAILING */
    busy = reading; /* C6 */
    if
    :: !busy -> break
    :: else
    fi
  od;
  assert(!is_read);
  buffer_is_free = true
}

active proctype consumer() {
  bool is_open;
  do
  :: consumed < published ->
#if !defined(NO_ANNOUNCEMENT) && !defined(LATE_ANNOUNCEMENT)
    reading = true; /* C5 */
#endif
    is_open = !gate_failed; /* G2 */
#ifdef LATE_ANNOUNCEMENT
    reading = true;
#endif
    if
    :: is_open ->
      is_read = true;
      assert(!buffer_is_free);
      is_read = false;
      reading = false; /* C5 */
      consumed++       /* C3 */
    :: else ->
      reading = false; /* C5 */
      break
    fi
  :: consumed == REFERENCES -> break
  :: gate_failed -> break
  od
}

/* A member aborts, leaves, or registered something else; or nothing happens. */
active proctype trouble() {
  if
  :: gate_failed = true /* G1 */
  :: true
  fi
}

ltl finished { <> buffer_is_free }
