// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep::cli {

/// The name of a function in a stack, from its symbol: without parameters, return type and anonymous
/// namespaces, and with template arguments only if they are short.
///
///     _ZN8lockstep4meanERKNS_5ArrayE                  lockstep::mean
///     _ZNSt6vectorIiSaIiEE9push_backEOi               std::vector<...>::push_back
///     main::{lambda(int)#1}::operator()(int) const    main::{lambda#1}::operator()
std::string function_name(const std::string& symbol);

/// The same for a demangled name.
std::string short_name(std::string_view name);

/// Whether a function, given by its short name, is an uninteresting one of the standard library between a
/// caller and the function that it calls (std::function, std::invoke, the start of a std::thread), or of the
/// C library before `main`.
bool is_glue(std::string_view short_name);

}  // namespace lockstep::cli
