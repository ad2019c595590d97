// Resolves the operands of a command to parameters, optimizer states, or slices of either.
//
//   for (const Picked& picked : pick_all(session, arguments.words)) {   // stats *norm* w[0:4]
//     std::cout << picked.label << "\n";
//   }
//
// An operand is a name, a unique suffix of a name, a glob, or the name of a module where a function
// accepts one. NAME[0:4, :8] is a slice of the tensor NAME.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "am/inspect/session.h"
#include "am/inspect/slice.h"

namespace am::inspect {

// A tensor, or a slice of one, that an operand names.
struct Picked {
  const HeldParameter* parameter = nullptr;
  Selection selection;     // the selected elements: all of the tensor, or the slice
  std::string label;       // the tensor's name, followed by the slice if there is one
  std::set<size_t> taken;  // dims that the slice removes, because it has an index for them

  int64_t numel() const { return selection.box.numel(); }
  int64_t bytes() const { return numel() * formats::dtype_size(parameter->dtype); }
};

Picked whole_tensor(const HeldParameter& tensor);
// Returns the tensors that the words name, in this order and each once. The name of a module
// selects all its parameters. If there are no words, returns all parameters. Throws Error(kUsage)
// if a word matches nothing.
std::vector<Picked> pick_all(const Session& session, const std::vector<std::string>& words);
// Returns what pick_all() returns, but does not accept the name of a module.
std::vector<Picked> pick_tensors(const Session& session, const std::vector<std::string>& words);
// Returns the number of bytes of all picked tensors and slices.
int64_t bytes_of(const std::vector<Picked>& all);
// Returns the one tensor or slice that the words name. Throws Error(kUsage) if they name several.
Picked pick_one(const Session& session, const std::vector<std::string>& words);

}  // namespace am::inspect
