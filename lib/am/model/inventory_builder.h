// Adding modules to an inventory, as a family's file writes them.
//
//   builder.linear("self_attn.q_proj", heads * head_dim, hidden, config.qkv_bias);
//   builder.norm("input_layernorm", hidden);
//
// Between enter_layer and leave_layer names are relative to the layer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "am/model/config.h"
#include "am/model/family.h"
#include "am/model/inventory.h"

namespace am::model {

class InventoryBuilder {
 public:
  // All arguments must outlive the builder.
  InventoryBuilder(const ModelConfig& config, const Family& family, Inventory& inventory)
      : config_(config), family_(family), inventory_(inventory) {}

  void enter_layer(std::string_view layers, int layer);
  void leave_layer();

  void embedding(std::string_view module, int64_t rows, int64_t columns);
  void linear(std::string_view module, int64_t out, int64_t in, bool bias);
  // GPT-2's Conv1D: a linear layer whose weight is stored [in, out].
  void conv1d(std::string_view module, int64_t out, int64_t in);
  // Over the last dim; with a bias where the family has LayerNorm in place of RMSNorm.
  void norm(std::string_view module, int64_t size);
  // A routed expert's matrix.
  void expert(std::string_view module, int64_t out, int64_t in);
  void router(std::string_view module, int64_t experts, int64_t hidden, bool bias);
  // A parameter of `module` that has a name of its own in place of "weight" or "bias".
  void bare(std::string_view module, std::string_view leaf, Shape shape, ModuleKind kind,
            Init init);

 private:
  const ModelConfig& config_;
  const Family& family_;
  Inventory& inventory_;
  std::string prefix_;
  int layer_ = -1;
};

}  // namespace am::model
