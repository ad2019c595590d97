// What the writer and the reader of torchtitan's settings share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "am/planner/exchange/exchange.h"

namespace am::planner {

// A job file (TOML), or the flags of a command line.
std::optional<Imported> read_torchtitan(std::string_view text, const std::string& file,
                                        Diagnostics& found);

}  // namespace am::planner
