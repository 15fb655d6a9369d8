#pragma once

#include <string>

#include "lockstep/data/source.h"

namespace lockstep::data {

/// The samples of a tar file as WebDataset writes them: files that stand one after the other and whose names
/// are the same up to the first dot behind the last slash are one record. Its fields are the rest of the
/// names, u8[n], and "__key__", what they share: of a/7.jpg and a/7.cls the record has "jpg", "cls" and
/// "__key__" = "a/7". Folders and links are left out. Reads ustar, pax and GNU's long names; not compressed
/// files. Makes an index.
SourcePtr tar(const std::string& url, IndexOptions index = {});

}  // namespace lockstep::data
