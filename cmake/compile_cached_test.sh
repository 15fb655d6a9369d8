#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A header that is precompiled again after a change has the change in it:
#   compile_cached_test.sh CCACHE COMPILER
# Two different changes are compiled over the same old precompiled header; the second one must not get the first one's
# result out of the cache.
set -euo pipefail
launcher=$(cd "$(dirname "$0")" && pwd)/compile_cached.sh
ccache=$1 compiler=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export CCACHE_DIR=$folder/cache
precompile() {
  printf '%s\n' "${2:-}" "constexpr int kNumber = $1;" > common.h
  echo '#include "common.h"' > pch.hxx
  "$launcher" "$ccache" "$compiler" -std=c++20 -fpch-preprocess -Winvalid-pch -MD -MF pch.d -x c++-header -include "$folder/pch.hxx" \
    -o pch.hxx.gch -c empty.cc
}
echo "" > empty.cc
echo 'static_assert(kNumber == EXPECTED);' > use.cc
precompile 1
cp -p pch.hxx.gch old.gch
for number in 2 3; do
  cp -p old.gch pch.hxx.gch
  precompile $number
  "$compiler" -std=c++20 -Winvalid-pch -include pch.hxx -DEXPECTED=$number -c use.cc -o use.o ||
    { echo "the precompiled header does not have number $number in it" >&2; exit 1; }
done
# A comment is no other code, but the compiler tells by a header's contents whether it was included before.
for words in first second; do
  cp -p old.gch pch.hxx.gch
  precompile 1 "#pragma once // $words"
  echo '#include "common.h"' > use.cc
  "$compiler" -std=c++20 -Winvalid-pch -include pch.hxx -c use.cc -o use.o ||
    { echo "the precompiled header does not have the $words comment in it" >&2; exit 1; }
done
echo "all changes are in their precompiled headers"
