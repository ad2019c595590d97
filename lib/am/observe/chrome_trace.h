// Prepares a Chrome trace of libtorch's profiler for Perfetto. If two events of a thread overlap,
// and neither contains the other, Perfetto's parser drops one of the two.
#pragma once

#include <filesystem>

namespace am::observe {

// Copies a trace, with changed times of the ranges "backward UNIT". Each range begins in one hook
// of autograd and ends in another hook, and each hook runs inside an event
// "autograd::engine::evaluate_function: ..". In the copy, the range begins where the event around
// the first hook begins, and ends where the event around the last hook begins. The range then
// contains whole events. All other text is copied unchanged. Throws
// std::filesystem::filesystem_error if a file cannot be read or written.
void copy_nested(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace am::observe
