#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command in a clone of this repository on a Debian that has nothing installed:
#   tests/recipes/debian-chroot.sh trixie /var/tmp/trixie ./quickstart
# Needs root, debootstrap and a network. The folder is made where it does not exist; `rm -rf` it afterwards (nothing
# stays mounted). It shares the host's network, its proxies and its certificates.
set -euo pipefail

[[ $# -ge 3 ]] || { sed -n '3,6s/^# //p' "$0"; exit 2; }
release=$1 root=$2
shift 2
source=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)

[[ -e $root/etc/debian_version ]] || debootstrap --variant=minbase "$release" "$root"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
certificates=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
if [[ -e $certificates ]]; then
  cp -L "$certificates" "$root/root/host-certificates.crt"
  export SSL_CERT_FILE=/root/host-certificates.crt
  export PIP_CERT=$SSL_CERT_FILE REQUESTS_CA_BUNDLE=$SSL_CERT_FILE
fi
rm -rf "$root/root/lockstep"
git clone -q "$source" "$root/root/lockstep"

# In a mount namespace of its own: what it mounts goes with it.
# shellcheck disable=SC2016
exec unshare --mount --propagation private bash -c '
  root=$1
  shift
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --rbind /sys "$root/sys"
  mount -t tmpfs -o size=4g tmpfs "$root/tmp"
  exec chroot "$root" env -C /root/lockstep HOME=/root "$@"' debian-chroot "$root" "$@"
