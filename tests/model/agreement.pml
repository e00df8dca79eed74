/*
 * Agreement on a registration (runtime/job/agreement.h): three processes in a chain, the root 0,
 * its child 1 and the child 2 of that. Each has one rank, which registers, or leaves and does not
 * register; each process may leave at any time, and then tells the others after its last message.
 *
 * Nobody may be told of an agreement before all have registered, and nobody who has registered and
 * stays may wait for ever.
 *
 * Left out: deregistration, losses, mismatches and the new neighbours that a process gets when one
 * has left; tests/explore/agree.c has them.
 *
 * Twins that must fail:
 *   AGREED_EARLY     a process takes a child that has begun to register for complete
 *   PROPOSAL_KEPT    a child that has proposed itself is not told, and so tells nobody below
 *   LEFT_UNNOTICED   nobody minds that a neighbour leaves before the group has agreed
 *   GONE_UNNOTICED   a rank registers although a member has left
 *   FAILURE_UNTOLD   a process that fails does not tell its neighbours
 *   LEAVES_SILENTLY  a rank leaves and does not tell that it will not register
 *   UNANSWERED       a message about an entry that can never be is not answered
 */

#define N 3
#define P 1 /* proposed */
#define C 2 /* complete */
#define A 4 /* agreed */
#define F 32 /* failed */
#define LEFT 64

#define E(n, m) ((n) * N + (m)) /* what process n has about, or sends to, process m */

chan wire[9] = [6] of { byte };
byte told[9];
byte heard[9];
bool gone[9];    /* n knows that m has left */
bool known[N];   /* the process has an entry */
bool registered[N];
bool refuses[N]; /* its rank has left and will not register */
bool agreed[N];
bool failed[N];
bool left[N];
bool stays[N]; /* chosen in the beginning; else it leaves, at any time */

#ifdef AGREED_EARLY
#define SUBTREE P /* a child that has begun to register counts as complete */
#else
#define SUBTREE C
#endif
#ifdef PROPOSAL_KEPT
#define ANSWER P /* a child that has proposed itself is not told, and tells nobody below */
#else
#define ANSWER C
#endif

inline tell(n, m, wanted) {
  if
  :: (wanted & ~told[E(n, m)]) != 0 ->
    told[E(n, m)] = told[E(n, m)] | wanted;
    wire[E(n, m)] ! told[E(n, m)]
  :: else
  fi
}

inline agree(n) {
  agreed[n] = true;
  assert(registered[0] && registered[1] && registered[2])
}

/* Tells the neighbours what they do not know yet. */
inline publish(n) {
  want = 0;
  if
  :: failed[n] ->
#ifndef FAILURE_UNTOLD
    want = F;
    if
    :: n > 0 -> tell(n, n - 1, want)
    :: else
    fi;
    if
    :: n < 2 -> tell(n, n + 1, want)
    :: else
    fi
#else
    skip
#endif
  :: else ->
    complete = registered[n];
    if
    :: n < 2 -> complete = complete && (heard[E(n, n + 1)] & SUBTREE) != 0
    :: else
    fi;
    if
    :: n == 0 && complete && !agreed[n] -> agree(n)
    :: else
    fi;
    if
    :: n > 0 ->
      want = (known[n] && (heard[E(n, n - 1)] & P) == 0 -> P : 0);
      want = want | (complete -> P | C : 0);
      tell(n, n - 1, want)
    :: else
    fi;
    if
    :: n < 2 ->
      want = 0;
      if
      :: n == 0 -> want = P
      :: n > 0 && ((heard[E(n, n - 1)] & P) != 0 || agreed[n]) -> want = P
      :: else
      fi;
      want = (known[n] && (heard[E(n, n + 1)] & ANSWER) == 0 -> want : 0);
      want = want | (agreed[n] -> P | A : 0);
      tell(n, n + 1, want)
    :: else
    fi
  fi
}

#define knows_gone(n) (gone[E(n, 0)] || gone[E(n, 1)] || gone[E(n, 2)])

inline hear_left(n, m) {
  gone[E(n, m)] = true;
#ifndef LEFT_UNNOTICED
  if
  :: known[n] && !agreed[n] && (m + 1 == n || n + 1 == m) -> failed[n] = true; publish(n)
  :: else
  fi
#endif
}

inline hear(n, m, facts) {
  if
  :: facts == LEFT -> hear_left(n, m)
  :: facts != LEFT && !known[n] && (knows_gone(n) || refuses[n]) ->
#ifndef UNANSWERED
    if
    :: (facts & F) == 0 -> tell(n, m, F)
    :: else
    fi
#else
    skip
#endif
  :: else ->
    known[n] = true;
    heard[E(n, m)] = heard[E(n, m)] | facts;
    if
    :: (facts & F) != 0 -> failed[n] = true
    :: (facts & F) == 0 && (facts & A) != 0 && !agreed[n] -> agree(n)
    :: else
    fi;
    publish(n)
  fi
}

proctype process(byte n) {
  byte facts;
  byte want;
  bool complete;
end:
  do
  :: atomic { !registered[n] && !refuses[n] ->
      registered[n] = true;
      known[n] = true;
#ifndef GONE_UNNOTICED
      failed[n] = failed[n] || knows_gone(n);
#endif
      publish(n) }
  :: atomic { !registered[n] && !refuses[n] ->
      refuses[n] = true;
#ifndef LEAVES_SILENTLY
      failed[n] = failed[n] || known[n];
      publish(n)
#endif
    }
  :: atomic { wire[E(0, n)] ? facts -> hear(n, 0, facts) }
  :: atomic { wire[E(1, n)] ? facts -> hear(n, 1, facts) }
  :: atomic { wire[E(2, n)] ? facts -> hear(n, 2, facts) }
  :: atomic { !stays[n] ->
      left[n] = true;
      if
      :: n != 0 -> wire[E(n, 0)] ! LEFT
      :: else
      fi;
      if
      :: n != 1 -> wire[E(n, 1)] ! LEFT
      :: else
      fi;
      if
      :: n != 2 -> wire[E(n, 2)] ! LEFT
      :: else
      fi;
      break }
  od
}

#define is_told(n) (left[n] || !registered[n] || agreed[n] || failed[n])

inline choose(n) {
  if
  :: stays[n] = true
  :: skip
  fi
}

init {
  atomic { choose(0); choose(1); choose(2); run process(0); run process(1); run process(2) };
  timeout;
  assert(is_told(0) && is_told(1) && is_told(2))
}
