// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/json.h"

namespace lockstep {

using nlohmann::json;

json parse_json(std::string_view text) { return json::parse(text); }

json try_parse_json(std::string_view text) {
  return json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
}

std::string json_text(const json& value, int indent) { return value.dump(indent); }

std::string json_text_of_any(const json& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

std::string json_ascii(const json& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

}  // namespace lockstep
