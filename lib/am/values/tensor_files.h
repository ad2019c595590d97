// Writes tensors of a session to files of their own, for notebooks.
//
//   write_tensors(session, inspect::pick_tensors(session, {"*norm.weight"}), "norms.safetensors");
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "am/inspect/command.h"
#include "am/inspect/pick.h"
#include "am/inspect/session.h"

namespace am::values {

// Writes the tensors, with their slices if any, to a file whose name ends in .npy (one tensor, for
// numpy.load) or .safetensors (in the stored dtypes). In .npy, bfloat16 and float8, which numpy
// does not have, become float32. The file appears under its name when it is complete. Throws
// Error(kUsage) for another ending, or for several tensors and .npy. Collective; rank 0 writes.
void write_tensors(inspect::Session& session, const std::vector<inspect::Picked>& tensors,
                   const std::filesystem::path& path);

// Calls write_tensors() with the path that the user entered, and returns the result of the command.
// Throws Error(kUsage) if the file exists and `forced` is false.
inspect::Result written_tensors(inspect::Session& session,
                                const std::vector<inspect::Picked>& tensors,
                                const std::string& file, bool forced);

}  // namespace am::values
