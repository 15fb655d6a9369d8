// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::storage {

/// An element of the XML answers of S3 and STS. Attributes and namespaces are dropped.
struct XmlElement {
  std::string name;
  std::string text;  ///< between its tags, if it has no child elements
  std::vector<XmlElement> children;

  /// The first child of this name; null if there is none.
  const XmlElement* child(std::string_view name) const;

  /// The text of that child; "" if there is none.
  std::string text_of(std::string_view name) const;

  /// The first element with this name at any depth, including this one; null if there is none.
  const XmlElement* find(std::string_view name) const;
};

/// The root element. Throws StorageError unless the text is a complete XML document.
XmlElement parse_xml(std::string_view text);

/// The text, escaped for use between tags.
std::string xml_escape(std::string_view text);

}  // namespace lockstep::storage
