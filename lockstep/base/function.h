// SPDX-License-Identifier: Apache-2.0
#pragma once

/// std::function, without the searchers, binders and hash tables of <functional>, which every program that
/// includes Lockstep would compile.
#if __has_include(<bits/std_function.h>)  // libstdc++
#include <bits/std_function.h>
#else
#include <functional>
#endif
