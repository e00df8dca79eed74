# Sourced: "machines" that are network namespaces behind one bridge. Machine M is $machine_prefix$M
# and has the address $network.(M + 1) on eth0.
#
#   machines_open COUNT ... machines_job RANKS ... machines_close COUNT
readonly network=10.77.0 machine_prefix=machine$$_

machines_open() {
  local m
  ip link add "bridge$$" type bridge
  ip link set "bridge$$" up
  for ((m = 0; m < $1; m++)); do
    ip netns add "$machine_prefix$m"
    ip link add "m$$_$m" type veth peer name eth0 netns "$machine_prefix$m"
    ip link set "m$$_$m" master "bridge$$" up
    ip -n "$machine_prefix$m" addr add "$network.$((m + 1))/24" dev eth0
    ip -n "$machine_prefix$m" link set eth0 up
    ip -n "$machine_prefix$m" link set lo up
  done
}

machines_close() {
  local m
  for ((m = 0; m < $1; m++)); do
    ip netns del "$machine_prefix$m" 2>/dev/null || true
  done
  ip link del "bridge$$" 2>/dev/null || true
}

# What all ranks of a job on the machines need in the environment, except for RONDO_RANK.
machines_job() {
  export RONDO_JOB=machines.$$ RONDO_RANK_COUNT=$1 RONDO_ROOT=$network.1:29600 UCX_TLS=tcp,self
  RONDO_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  export RONDO_SECRET
}
