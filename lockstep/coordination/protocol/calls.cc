// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/protocol/calls.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstdint>

namespace lockstep::coordination {

const Procedure* find_procedure(std::string_view name) {
  const Procedure* found = nullptr;
  for_each_procedure([&](const Procedure& procedure) {
    if (procedure.name() == name) found = &procedure;
  });
  return found;
}

Status unreadable(std::string_view what) {
  return Status::bare(
      Code::kInternal,
      fmt::format(
          "cannot parse the {}; use the same version of Lockstep for the coordinator and all processes",
          what));
}

Status unknown_call() {
  return Status::bare(
      Code::kUnimplemented,
      "the coordinator does not know this call; use the same version of Lockstep for it and for "
      "all processes");
}

std::string field_head(int number, std::size_t size) {
  constexpr int kLengthDelimited = 2;
  std::string head;
  {
    google::protobuf::io::StringOutputStream out(&head);
    google::protobuf::io::CodedOutputStream coded(&out);
    coded.WriteVarint32(static_cast<std::uint32_t>(number << 3 | kLengthDelimited));
    coded.WriteVarint32(static_cast<std::uint32_t>(size));
  }
  return head;
}

}  // namespace lockstep::coordination
