// Imports the data settings of NeMo AutoModel's recipes into a plan.
#include <string>
#include <utility>

#include "am/base/text.h"
#include "am/config/field.h"
#include "am/frameworks/nemo_automodel/config.h"
#include "am/frameworks/plan_builder.h"

namespace am::frameworks {
namespace {

// Reads a data set of conversations from a section of the recipe, for example "dataset.", and sets
// the plan's key `ours` to the data set's path. Returns false if the section describes another kind
// of data set, if the path is not local, or if the data set has a column for the context, which a
// plan cannot read.
bool read_chats(PlanBuilder& builder, const std::string& section, const char* ours) {
  Source& source = builder.source();
  const std::string target = source.text(section + "_target_").value_or("");
  const bool columns = ends_with(target, "ColumnMappedTextInstructionDataset");
  if (!columns && !ends_with(target, "ChatDataset")) return false;
  if (source.has(section + "column_mapping.context")) return false;
  const std::string path = section + "path_or_dataset_id";
  if (!is_local_data(source.text(path).value_or(""))) return false;
  builder.copy(path, ours);
  source.skip(section + "split");
  source.skip(section + "tokenizer");
  if (!columns || section != "dataset.") return true;
  config::Value names;
  names.span = source.span("dataset.column_mapping");
  for (const auto& [theirs, key] : {std::pair{"question", "prompt"}, {"answer", "completion"}}) {
    const std::string column = cat("dataset.column_mapping.", theirs);
    if (const auto name = source.text(column)) {
      names.members.push_back({key, names.span, config::value_of(*name, source.span(column))});
    }
  }
  builder.set("data.columns", names);
  const char* mask = "dataset.answer_only_loss_mask";
  if (!source.boolean(mask).value_or(true)) builder.set("data.loss_on", "all", mask);
  return true;
}

// Reads the recipe's data set of conversations, its packing, the number of epochs and the
// validation data set. Returns false if a plan cannot read the data set of conversations.
bool read_conversations(PlanBuilder& builder) {
  Source& source = builder.source();
  if (!read_chats(builder, "dataset.", "data.path")) return false;
  builder.set("data.kind", "chat", "dataset._target_");
  const bool packs = source.integer("packed_sequence.packed_sequence_size").value_or(0) > 0;
  builder.set("data.packing", packs, "packed_sequence.packed_sequence_size");
  builder.copy("step_scheduler.num_epochs", "train.epochs");
  if (read_chats(builder, "validation_dataset.", "validation.path")) {
    builder.copy("step_scheduler.val_every_steps", "validation.every");
    builder.set("validation.steps", int64_t{0}, "validation_dataset");
  }
  return true;
}

}  // namespace

void read_nemo_data(PlanBuilder& builder) {
  Source& source = builder.source();
  const std::string target = source.text("dataset._target_").value_or("");
  if (ends_with(target, "MegatronPretraining")) {
    builder.copy("dataset.paths", "data.path");
    builder.set("data.kind", "megatron", "dataset._target_");
  } else if (ends_with(target, "NanogptDataset")) {
    builder.copy("dataset.file_pattern", "data.path");
    builder.set("data.kind", "tokens", "dataset._target_");
  } else if (!read_conversations(builder) && !target.empty() &&
             !ends_with(target, "MockIterableDataset")) {
    builder.note(cat("a plan cannot read ", target, ": the plan uses synthetic data"));
  }
  read_keys(kNemoAutomodelKeys, "dataloader.", builder);
}

}  // namespace am::frameworks
