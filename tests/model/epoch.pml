/*
 * The vote on one epoch: no two processes that go on have different contents for it, whoever leads,
 * whichever messages are late, and whoever ends at whatever moment.
 *
 *   runtime/job/membership_vote.c    on_prepare, on_propose, lead_is_promised, lead_is_decided
 *   runtime/job/membership.c         membership_believes
 *   runtime/job/membership_spread.c  on_epoch
 *
 * Processes 0, 1 and 2 are the keepers of the epoch before, 3 is a member. Process b - 1 leads
 * ballot b, and proposes b unless it learns of something that was accepted; ballot 1 asks for no
 * promises. A message is a fact that anybody may read at any later time, or never; a reply holds
 * what was true when it was made. A process that has opened the epoch has sent it to all: they may
 * read that also after it has ended.
 *
 * A process that has ended never comes back, and the leader of a ballot knows who has ended when it
 * begins: all who are left vote if no majority of the keepers is. With LOGS processes come back and
 * go on with their records, but lead with no ballot of before; then a majority alone counts, and
 * what those that have ended had opened must agree, too.
 *
 * The votes on other epochs share nothing with this one: who has opened an epoch knows the voters
 * on the next.
 *
 * Twins that must fail:
 *   MINORITY             one keeper's vote opens an epoch
 *   BALLOT_IGNORED       a voter accepts a lower ballot than it has promised
 *   ACCEPTED_FORGOTTEN   a leader does not ask what was accepted
 *   LEADS_ON             a leader goes on after it has promised a higher ballot
 *   DEAD_BELIEVED        all have voted, and news of one that has ended is believed
 *   PROOF_WITH_LOGS      all who are left vote, and those that have ended come back
 *   RECORD_AFTER_REPLY   with LOGS: a voter comes back without what it has replied
 */
#if defined(PROOF_WITH_LOGS) || defined(RECORD_AFTER_REPLY)
#define LOGS
#endif
#define PROCESSES 4
#define KEEPERS 3
#if defined(LOGS) || defined(BALLOT_IGNORED)
#define BALLOTS 3
#else
#define BALLOTS 4
#endif
#ifdef BALLOT_IGNORED
#define DEATHS 0
#endif
#ifndef DEATHS
#define DEATHS 2
#endif

#define bit_of(i) (1 << (i))
#define has(set, i) (((set) >> (i)) & 1)
#define of_keepers(set) (has(set, 0) + has(set, 1) + has(set, 2))
#define of_all(set) (of_keepers(set) + has(set, 3))

byte alive = 15;             /* a set of processes */
byte deaths;
byte promised[PROCESSES];    /* ballot */
byte accepted[PROCESSES];    /* ballot; 0: nothing */
byte opened[PROCESSES];      /* value; 0: not opened */
byte distrusted[PROCESSES];  /* set: those that have ended, by a vote of all */
bool asked[PROCESSES + 1];     /* PREPARE is sent */
bool is_over[PROCESSES + 1];   /* who led it has ended, or has opened the epoch */
bool all_vote[PROCESSES + 1];
byte over[PROCESSES + 1];      /* set: those that had ended when it began */
byte value[PROCESSES + 1];     /* PROPOSE is sent with this; 0: not yet */
byte promises[16];           /* [4 * (ballot - 1) + process]: 1 + accepted ballot */
byte acceptors[PROCESSES + 1]; /* set */

#define promise_of(b, i) promises[4 * ((b) - 1) + (i)]
#define counts(i, v) (opened[i] == 0 || opened[i] == (v) || !is_asked(i))
#ifdef LOGS
#define is_asked(i) true
#else
#define is_asked(i) has(alive, i)
#endif

/* Process i opens the epoch with value v. */
inline open(i, v) {
  opened[i] = v;
  assert(counts(0, v) && counts(1, v) && counts(2, v) && counts(3, v))
}

inline accept(i, b) {
  promised[i] = b;
  accepted[i] = b;
  acceptors[b] = acceptors[b] | bit_of(i)
}

/* lead_yield: who knows of a higher ballot leads no lower one. */
inline yield(i, b) {
#ifndef LEADS_ON
  if
  :: b > i + 1 -> is_over[i + 1] = true
  :: else
  fi
#else
  skip
#endif
}

/* Takes the accepted value of the highest ballot that the promises name. */
inline take(b, i) {
  if
  :: promise_of(b, i) > best -> best = promise_of(b, i)
  :: else
  fi
}

#ifdef BALLOT_IGNORED
#define may_accept(i, b) true
#else
#define may_accept(i, b) ((b) >= promised[i])
#endif

inline promise_set(b) {
  set = (promise_of(b, 0) != 0) | ((promise_of(b, 1) != 0) << 1) | ((promise_of(b, 2) != 0) << 2) |
        ((promise_of(b, 3) != 0) << 3)
}

#ifdef MINORITY
#define MAJORITY 1
#else
#define MAJORITY 2
#endif

active proctype world() {
  byte b, i, set, best;
  bool is_enough;
  do
  :: atomic {
    select(b : 1 .. BALLOTS);
    select(i : 0 .. 3);
    if
    /* lead_begin */
    :: d_step { b == 1 && !asked[1] && has(alive, 0) && !is_over[1] && promised[0] == 0 &&
        opened[0] == 0 -> asked[1] = true; value[1] = 1; accept(0, 1) }
    :: d_step { b > 1 && !asked[b] && has(alive, b - 1) && !is_over[b] && opened[b - 1] == 0 &&
        b > promised[b - 1] && (of_keepers(alive) < 2 || b <= KEEPERS) ->
        asked[b] = true;
#if !defined(LOGS) || defined(PROOF_WITH_LOGS)
        all_vote[b] = of_keepers(alive) < 2;
#endif
        over[b] = 15 & ~alive }
    /* on_prepare */
    :: d_step { b > 1 && asked[b] && has(alive, i) && (i < KEEPERS || all_vote[b]) &&
        promise_of(b, i) == 0 && b >= promised[i] && opened[i] == 0 ->
        promised[i] = b;
        promise_of(b, i) = 1 + accepted[i];
        yield(i, b);
#ifndef DEAD_BELIEVED
        if
        :: all_vote[b] -> distrusted[i] = distrusted[i] | over[b]
        :: else
        fi
#endif
        }
    /* lead_propose */
    :: d_step { b > 1 && asked[b] && value[b] == 0 && has(alive, b - 1) && !is_over[b] ->
        promise_set(b);
        if
        :: all_vote[b] -> is_enough = ((set | over[b]) == 15)
        :: else -> is_enough = (of_keepers(set) >= MAJORITY)
        fi;
        if
        :: is_enough ->
          take(b, 0); take(b, 1); take(b, 2); take(b, 3);
          value[b] = b;
#ifndef ACCEPTED_FORGOTTEN
          if
          :: best > 1 -> value[b] = value[best - 1]
          :: else
          fi;
#endif
          if
          :: b >= promised[b - 1] -> accept(b - 1, b)
          :: else
          fi
        :: else
        fi }
    /* on_propose */
    :: d_step { value[b] != 0 && has(alive, i) && (i < KEEPERS || all_vote[b]) &&
        !has(over[b], i) && !has(acceptors[b], i) && may_accept(i, b) && opened[i] == 0 ->
        accept(i, b);
        yield(i, b) }
    /* lead_is_decided */
    :: d_step { value[b] != 0 && has(alive, b - 1) && !is_over[b] && opened[b - 1] == 0 ->
        if
        :: all_vote[b] -> is_enough = (of_all(acceptors[b] & alive & ~over[b]) >=
                                       of_all(alive & ~over[b]) / 2 + 1)
        :: else -> is_enough = (of_keepers(acceptors[b]) >= MAJORITY)
        fi;
        if
        :: is_enough -> is_over[b] = true; open(b - 1, value[b])
        :: else
        fi }
    /* on_epoch: b - 1 has sent it */
    :: d_step { opened[b - 1] != 0 && has(alive, i) && opened[i] == 0 &&
        !has(distrusted[i], b - 1) -> open(i, opened[b - 1]) }
    /* A process ends. */
    :: d_step { deaths < DEATHS && has(alive, i) && of_all(alive) > 1 ->
        deaths++;
        alive = alive & ~bit_of(i);
        is_over[i + 1] = true }
#ifdef LOGS
    :: d_step { !has(alive, i) -> alive = alive | bit_of(i);
#ifdef RECORD_AFTER_REPLY
        promised[i] = 0;
        accepted[i] = 0
#endif
        }
#endif
    :: else
    fi;
    b = 0; i = 0; set = 0; best = 0; is_enough = false }
  :: break
  od
}
