#include "am/base/text.h"
#include "am/base/units.h"
#include "am/inspect/commands/table.h"
#include "am/inspect/pick.h"
#include "am/inspect/render.h"
#include "am/inspect/rows.h"

namespace am::inspect {
namespace {

std::string file_of_shard(const Session& session, const HeldParameter& parameter, size_t shard) {
  const stored::TensorSource* source = session.view().source();
  if (source == nullptr) return {};
  const stored::StoredTensor* stored = source->find(parameter.name);
  return stored == nullptr ? std::string() : source->file_of(*stored, shard).filename().string();
}

Result where_is(const Session& session, const HeldParameter& parameter) {
  Rows rows({{"rank", {}, RowKind::kCount},
             {"file", {}, RowKind::kText},
             {"box", "holds", RowKind::kText},
             {"bytes", "size", RowKind::kBytes}});
  Json parts = Json::array();
  const auto element = formats::dtype_size(parameter.dtype);
  for (size_t i = 0; i < parameter.shards.size(); ++i) {
    const HeldShard& shard = parameter.shards[i];
    const std::string file = file_of_shard(session, parameter, i);
    Json part = {{"rank", shard.rank},
                 {"file", file.empty() ? Json(nullptr) : Json(file)},
                 {"offset", shard.box.offset},
                 {"shape", shard.box.shape},
                 {"bytes", shard.box.numel() * element}};
    parts.push_back(part);
    part["box"] = shard.box.shape.empty() ? "whole" : box_text(shard.box);
    rows.add(std::move(part));
  }
  Result result;
  rows.give(result, "parts", session);
  result.json = {{"name", parameter.name},
                 {"shape", parameter.shape},
                 {"dtype", formats::torch_name(parameter.dtype)},
                 {"parts", parts}};
  result.text = cat(session.style().paint(term::Role::kBold, parameter.name), "  ",
                    shape_text(parameter.shape), " ", formats::torch_name(parameter.dtype), "\n",
                    result.text, "\n", draw_shards(parameter, parameter.shards, session.style()));
  return result;
}

}  // namespace

Result run_where(Session& session, const Arguments& arguments) {
  const std::vector<Picked> all = pick_tensors(session, arguments.words);
  Result result;
  result.json["parameters"] = Json::array();
  for (const Picked& picked : all) {
    const Result one = where_is(session, *picked.parameter);
    result.json["parameters"].push_back(one.json);
    result.text += cat(result.text.empty() ? "" : "\n", one.text);
  }
  if (all.size() == 1) result.json = Json(result.json["parameters"][0]);
  return result;
}

}  // namespace am::inspect
