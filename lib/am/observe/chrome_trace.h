// Prepares a Chrome trace of libtorch's profiler for Perfetto, whose parser drops each event that
// overlaps another event of its thread without containing it.
#pragma once

#include <filesystem>

namespace am::observe {

// Copies a trace. A range "backward UNIT" begins and ends in hooks of autograd, inside events
// "autograd::engine::evaluate_function: ..". In the copy, the range begins where the event around
// its first hook begins, and ends where the event around its last hook begins, so that the range
// contains whole events. All other text stays equal. Throws std::filesystem::filesystem_error if a
// file cannot be read or written.
void copy_nested(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace am::observe
