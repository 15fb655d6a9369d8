// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/data/source.h"

namespace lockstep::data {

/// The samples of a tar file as WebDataset writes them: consecutive files whose names are the same up to the
/// first dot after the last slash form one record. The rest of a name is the name of a field, u8[n], and
/// "__key__" is the common part: a/7.jpg and a/7.cls give the fields "jpg", "cls" and "__key__" = "a/7".
/// Folders and links are ignored, and so are files whose names have no dot or begin with one: README,
/// ._7.jpg. Archives that were joined by `cat` are read one after the other; anything else behind an
/// archive's end is an error. Reads ustar, pax and GNU's long names, but not compressed files. Makes an
/// index.
SourcePtr tar(const std::string& url, IndexOptions index = {});

}  // namespace lockstep::data
