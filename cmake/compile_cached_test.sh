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
  echo "constexpr int kNumber = $1;" > common.h
  echo '#include "common.h"' > pch.hxx
  "$launcher" "$ccache" "$compiler" -std=c++20 -fpch-preprocess -Winvalid-pch -x c++-header -include "$folder/pch.hxx" \
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
echo "both changes are in their precompiled headers"
