// Resolves operands of commands to tensors (parameters and optimizer states) or slices of them.
//
//   for (const Picked& picked : pick_all(session, arguments.words)) {   // stats *norm* w[0:4]
//     std::cout << picked.label << "\n";
//   }
//
// An operand is a name, a unique suffix of a name, a glob, or, for some functions, the name of a
// module. NAME[0:4, :8] is a slice of the tensor NAME.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "am/inspect/session.h"
#include "am/inspect/slice.h"

namespace am::inspect {

// A tensor, or a slice of a tensor, that an operand names.
struct Picked {
  const HeldParameter* parameter = nullptr;
  Selection selection;     // elements of the slice, or all elements of the tensor
  std::string label;       // the tensor's name, followed by the slice if there is one
  std::set<size_t> taken;  // dims that the slice removes by an index

  int64_t numel() const { return selection.box.numel(); }
  int64_t bytes() const { return numel() * formats::dtype_size(parameter->dtype); }
};

Picked whole_tensor(const HeldParameter& tensor);
// Returns the tensors and slices that the words name, in the order of the words and without
// repetition. The name of a module selects all parameters of the module. If `words` is empty,
// returns all parameters. Throws Error(kUsage) if a word matches nothing.
std::vector<Picked> pick_all(const Session& session, const std::vector<std::string>& words);
// Like pick_all(), but does not accept the name of a module.
std::vector<Picked> pick_tensors(const Session& session, const std::vector<std::string>& words);
// Returns the number of bytes of all picked tensors and slices.
int64_t bytes_of(const std::vector<Picked>& all);
// Returns the tensor or slice that the words name. Throws Error(kUsage) if the words name several
// tensors or slices, or a module.
Picked pick_one(const Session& session, const std::vector<std::string>& words);

}  // namespace am::inspect
