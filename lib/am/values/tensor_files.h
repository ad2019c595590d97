// Writes tensors of a session to .npy or .safetensors files, for example for a notebook.
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

// Writes the tensors, or their picked slices, to a file whose name ends in .npy (one tensor, for
// numpy.load) or .safetensors (in the stored dtypes). In .npy, floating-point dtypes that numpy
// does not have (bfloat16, float8) become float32. The file gets its name when it is complete.
// Throws Error(kUsage) for another ending, for several tensors in a .npy file, or for another dtype
// that numpy does not have. Collective; rank 0 writes.
void write_tensors(inspect::Session& session, const std::vector<inspect::Picked>& tensors,
                   const std::filesystem::path& path);

// Calls write_tensors() with `file`, the path that the user entered, and returns the result of the
// command. Throws Error(kUsage) if `file` exists and `forced` is false, or if `file` is not a
// regular file. Collective.
inspect::Result written_tensors(inspect::Session& session,
                                const std::vector<inspect::Picked>& tensors,
                                const std::string& file, bool forced);

}  // namespace am::values
