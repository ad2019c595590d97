// What the writer and the reader of NeMo AutoModel's recipes share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "am/planner/exchange/exchange.h"

namespace am::planner {

// A recipe (YAML).
std::optional<Imported> read_nemo_automodel(std::string_view text, const std::string& file,
                                            Diagnostics& found);

}  // namespace am::planner
