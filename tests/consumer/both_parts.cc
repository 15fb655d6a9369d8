// SPDX-License-Identifier: Apache-2.0
// A program with two libraries that have Lockstep within, each with a copy of its own or both with one.
#include <cstdio>

extern "C" int first();
extern "C" int second();

int main() { std::printf("first %d, second %d, first again %d\n", first(), second(), first()); }
