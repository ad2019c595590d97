// data.kind = "text": tokenized documents, held in memory.
#pragma once

#include <memory>

#include "am/data/token_source.h"

namespace am::data {

// Implements open_token_source() for this kind.
std::unique_ptr<TokenSource> open_text(const DataSpec& spec);

}  // namespace am::data
