#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::storage {

/// An element of the XML that S3 and STS answer. Attributes and namespaces are dropped.
struct XmlElement {
  std::string name;
  std::string text;  ///< between its tags, where no elements are
  std::vector<XmlElement> children;

  /// The first child of this name; null if there is none.
  const XmlElement* child(std::string_view name) const;

  /// The text of that child; "" where there is none.
  std::string text_of(std::string_view name) const;

  /// The first element of this name at any depth, itself included; null if there is none.
  const XmlElement* find(std::string_view name) const;
};

/// The root element. Throws StorageError if the text is no whole XML document.
XmlElement parse_xml(std::string_view text);

/// The text as it stands between tags.
std::string xml_escape(std::string_view text);

}  // namespace lockstep::storage
