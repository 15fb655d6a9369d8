#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# start_on_hosts.sh WHAT PROGRAM [ARGS...]: runs PROGRAM as 4 processes, 2 on each of the hosts of
# tests/recipes/netns-two-hosts.sh, beside which this runs ($ON), and does WHAT to them:
#   nothing | kill (process 3) | cut-short (the cable of host 2, for $CUT_SECONDS or a second) | cut (for ever)
#   named   nothing, but host 1 is called by its name, which is the loopback's on itself, as Debian writes /etc/hosts
# Prints what each process printed, "[process] line", then how each ended, "process I ended with STATUS", and how long
# after WHAT the last of the others had, "SECONDS s after". Writes out.0 to out.3 into the current folder.
set -u
what=$1; shift
pids=()
coordinator=10.77.0.1
if [ "$what" = named ]; then
  coordinator=host1
  printf '127.0.0.1 localhost\n127.0.1.1 host1\n' >hosts.1
  printf '127.0.0.1 localhost\n127.0.1.1 host2\n10.77.0.1 host1\n' >hosts.2
  for i in 1 2; do "$ON" $i mount --bind "$PWD/hosts.$i" /etc/hosts; done
fi
for i in 0 1 2 3; do
  "$ON" $((i / 2 + 1)) env LOCKSTEP_COORDINATOR_ADDRESS=$coordinator:5000 LOCKSTEP_NUM_PROCESSES=4 LOCKSTEP_PROCESS_ID=$i \
    LOCKSTEP_JOB_SECRET=of-this-test-only "$@" >"out.$i" 2>&1 &
  pids+=($!)
done
if [ "$what" != nothing ] && [ "$what" != named ]; then   # in the middle of it
  for _ in $(seq 600); do [ "$(grep -c '^loss' out.0)" -ge 20 ] && break; sleep 0.1; done
fi
begin=$(date +%s.%N)
case $what in
  kill) kill -KILL "${pids[3]}" ;;
  cut-short) "$ON" link 2 down; sleep "${CUT_SECONDS:-1}"; "$ON" link 2 up ;;
  cut) "$ON" link 2 down ;;
esac
statuses=()
for i in 0 1 2 3; do wait "${pids[$i]}"; statuses+=($?); done
end=$(date +%s.%N)
for i in 0 1 2 3; do sed "/^loss/d; s/^/[$i] /" "out.$i"; done
for i in 0 1 2 3; do echo "process $i ended with ${statuses[$i]}"; done
echo "$(echo "$end $begin" | awk '{printf "%.1f", $1 - $2}') s after"
