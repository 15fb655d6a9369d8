#pragma once

#include <string>
#include <string_view>

namespace lockstep::cli {

/// A function's name as it stands in a stack, from its symbol: without parameters, return type and anonymous
/// namespaces, and with the arguments of templates only where they are short.
///
///     _ZN8lockstep4meanERKNS_5ArrayE                  lockstep::mean
///     _ZNSt6vectorIiSaIiEE9push_backEOi               std::vector<...>::push_back
///     main::{lambda(int)#1}::operator()(int) const    main::{lambda#1}::operator()
std::string function_name(const std::string& symbol);

/// The same of a name that is demangled already.
std::string short_name(std::string_view name);

/// What the standard library has between a caller and what it calls (std::function, std::invoke, the start of
/// a std::thread), or the C library before `main`, by its short name: it tells nothing about a program.
bool is_glue(std::string_view short_name);

}  // namespace lockstep::cli
