// SPDX-License-Identifier: Apache-2.0
#pragma once

/// std::chrono's durations and clocks, without its calendars, time zones and streams, which every program
/// that includes Lockstep would compile.
#if __has_include(<bits/chrono.h>)  // libstdc++
#include <bits/chrono.h>
#else
#include <chrono>
#endif
