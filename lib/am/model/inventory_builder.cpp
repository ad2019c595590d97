#include "am/model/inventory_builder.h"

#include <utility>

#include "am/base/text.h"

namespace am::model {

void InventoryBuilder::enter_layer(std::string_view layers, int layer) {
  prefix_ = cat(layers, ".", layer, ".");
  layer_ = layer;
}

void InventoryBuilder::leave_layer() {
  prefix_.clear();
  layer_ = -1;
}

void InventoryBuilder::embedding(std::string_view module, int64_t rows, int64_t columns) {
  bare(module, "weight", {rows, columns}, ModuleKind::kEmbedding, Init::kNormal);
}

void InventoryBuilder::linear(std::string_view module, int64_t out, int64_t in, bool bias) {
  bare(module, "weight", {out, in}, ModuleKind::kLinear, Init::kNormal);
  if (bias) bare(module, "bias", {out}, ModuleKind::kLinear, Init::kZeros);
}

void InventoryBuilder::conv1d(std::string_view module, int64_t out, int64_t in) {
  bare(module, "weight", {in, out}, ModuleKind::kLinear, Init::kNormal);
  inventory_.parameters.back().transposed = true;
  bare(module, "bias", {out}, ModuleKind::kLinear, Init::kZeros);
}

void InventoryBuilder::norm(std::string_view module, int64_t size) {
  bare(module, "weight", {size}, ModuleKind::kNorm, family_.norm_init);
  if (config_.norm_bias) bare(module, "bias", {size}, ModuleKind::kNorm, Init::kZeros);
}

void InventoryBuilder::expert(std::string_view module, int64_t out, int64_t in) {
  bare(module, "weight", {out, in}, ModuleKind::kExpert, Init::kNormal);
}

void InventoryBuilder::router(std::string_view module, int64_t experts, int64_t hidden, bool bias) {
  bare(module, "weight", {experts, hidden}, ModuleKind::kRouter, Init::kNormal);
  if (bias) bare(module, "bias", {experts}, ModuleKind::kRouter, Init::kZeros);
}

void InventoryBuilder::bare(std::string_view module, std::string_view leaf, Shape shape,
                            ModuleKind kind, Init init) {
  inventory_.parameters.push_back({.name = cat(prefix_, module, ".", leaf),
                                   .shape = std::move(shape),
                                   .module_kind = kind,
                                   .init = init,
                                   .layer = layer_});
}

}  // namespace am::model
