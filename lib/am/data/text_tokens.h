// Opens data of the kind "text": tokenized documents, which stay in memory.
#pragma once

#include <memory>

#include "am/data/token_source.h"

namespace am::data {

// Implements open_token_source() for the kind "text".
std::unique_ptr<TokenSource> open_text(const DataSpec& spec);

}  // namespace am::data
