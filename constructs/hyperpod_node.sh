#!/bin/bash
# Run by HyperPod on every new node of a cluster, as root, once the node's image has set up Slurm and mounted
# the file system (LifeCycleConfig, OnInitComplete). It sees to it that runs can lie on the shared folder, and
# that those who launch can log in. Run again it changes nothing. A node on which it fails takes no jobs.
#
# What it says goes to the node's provisioning log, and from there to CloudWatch Logs; a line that names a
# failure mode is one that `launch diagnose` knows.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=${SLIPWAY_NODE_ROOT:-}
pause=${SLIPWAY_NODE_PAUSE:-6}
shared=$root/fsx
tries=20
name=$(hostname)

log=$root/var/log/provision/provisioning.log
mkdir -p "$(dirname "$log")"

say() { printf 'slipway: node: %s\n' "$*" | tee -a "$log"; }

# The code of the failure mode, and what is wrong.
fail() {
  say "$1 $name: $2"
  exit 1
}

is_mounted() { [ "$(findmnt --noheadings --output FSTYPE --mountpoint "$shared" 2>&1)" = lustre ]; }

wait_for_shared_folder() {
  local said='' try
  for ((try = 1; try <= tries; try++)); do
    if is_mounted; then return; fi
    # Where HyperPod has tried in vain, as while the servers did not answer yet; else it knows no such mount.
    said=$(mount "$shared" 2>&1 | tail -n 1)
    if is_mounted; then return; fi
    sleep "$pause"
  done
  fail FSX005 "/fsx is not mounted after $tries tries (${said:-mount says nothing})"
}

prepare_shared_folder() {
  local said
  # As /tmp is: everybody makes runs there, and nobody takes away those of others.
  if ! said=$(install -d -m 1777 "$shared/jobs" 2>&1); then
    fail FSX005 "/fsx is mounted and cannot be written ($said)"
  fi
  if ! said=$(touch "$shared/jobs/.$name" 2>&1 && rm "$shared/jobs/.$name" 2>&1); then
    fail FSX005 "/fsx is mounted and cannot be written ($said)"
  fi
}

# Appended, never written anew: home folders lie on the shared folder, where other nodes do the same.
let_people_in() {
  local home keys key added=0
  home=$root$(getent passwd ubuntu | cut -d: -f6)
  keys=$home/.ssh/authorized_keys
  install -d -m 700 -o ubuntu -g ubuntu "$home/.ssh"
  touch "$keys"
  # So that a key does not go on in a last line without an end.
  if [ -s "$keys" ] && [ -n "$(tail -c 1 "$keys")" ]; then echo >>"$keys"; fi
  while IFS= read -r key; do
    if [ -n "$key" ] && ! grep -qxF -- "$key" "$keys"; then
      printf '%s\n' "$key" >>"$keys"
      added=$((added + 1))
    fi
  done <"$here/authorized_keys"
  chown ubuntu:ubuntu "$keys"
  chmod 600 "$keys"
  say "$name: $added new keys of people who log in as ubuntu"
}

say "$name: begins at $(date -u +%Y-%m-%dT%H:%M:%SZ)"
wait_for_shared_folder
prepare_shared_folder
let_people_in
say "$name: is ready, with /fsx mounted"
