#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/commands/registry.h"
#include "am/inspect/render.h"
#include "am/tensor/dtype.h"
#include "am/term/table.h"

namespace am::inspect {
namespace {

Result run_ls(Session& session, const Arguments& arguments) {
  const auto found = session.matching(arguments.words.empty() ? "" : arguments.words.front());
  Result result;
  Json list = Json::array();
  std::vector<int64_t> bytes;
  int64_t elements = 0;
  int64_t total = 0;
  for (const HeldParameter* parameter : found) {
    list.push_back({{"name", parameter->name},
                    {"shape", parameter->shape},
                    {"dtype", tensor::dtype_name(parameter->dtype)},
                    {"bytes", parameter->bytes()}});
    bytes.push_back(parameter->bytes());
    elements += parameter->numel();
    total += parameter->bytes();
  }
  const ScaledBytes scaled = scale_bytes(bytes);
  term::Table table({{"name"}, {"shape"}, {"dtype"}, {scaled.unit, term::Align::kRight}});
  for (size_t i = 0; i < found.size(); ++i) {
    table.add({found[i]->name, shape_text(found[i]->shape), tensor::dtype_name(found[i]->dtype),
               scaled.values[i]});
  }
  result.json["parameters"] = list;
  result.text =
      table.text(session.style()) +
      session.style().paint(term::Role::kDim,
                            cat(found.size(), found.size() == 1 ? " parameter, " : " parameters, ",
                                format_count(elements), " elements, ", format_bytes(total))) +
      "\n";
  return result;
}

}  // namespace

const Command kLsCommand = {
    .name = "ls",
    .operands = "[GLOB|MODULE]",
    .summary = "the parameters, their shapes and dtypes",
    .help =
        "A `*` also matches dots; a module's name lists what is in it.\n"
        "Examples:  ls\n"
        "           ls *.q_proj.weight\n"
        "           ls model.layers.0.mlp\n"
        "JSON: parameters, each with name, shape, dtype, bytes.",
    .completes = Operand::kModule,
    .max_words = 1,
    .run = run_ls,
};

}  // namespace am::inspect
