#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a compiler through ccache:
#   compile_cached.sh CCACHE COMPILER ARGUMENT...
set -eu
ccache=$1
shift
# Macros on the command line do not change precompiled headers, which are all from other projects. ccache replaces paths
# in the source tree by relative ones, so that a clone can use what another clone has compiled.
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_ABSSTDERR=1
CCACHE_BASEDIR=$(cd "$(dirname "$0")/.." && pwd)
export CCACHE_BASEDIR
# A precompiled header is included in its own next compilation, and ccache identifies that compilation by the old header's
# contents, whatever the new one would contain. So the old one is removed first.
output="" previous="" header=""
for argument in "$@"; do
  case $previous,$argument in
    -o,*) output=$argument ;;
    -x,c++-header) header=yes ;;
  esac
  previous=$argument
done
if [ -n "$header" ]; then
  rm -f "$output"
  # A precompiled header knows its headers by their contents, with comments: so do the files that -MD names.
  export CCACHE_DEPEND=1
fi
exec "$ccache" "$@"
