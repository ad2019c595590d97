#include "am/parallel/module/sharded_module.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/layout/precision.h"
#include "am/parallel/module/module_dry_run.h"
#include "am/parallel/module/module_units.h"
#include "am/parallel/strategy.h"
#include "am/tensor/dtype.h"

namespace am::parallel {

namespace {

void require(bool holds, const std::string& message, const std::string& hint) {
  if (!holds) throw Error(ErrorKind::kPlan, message, hint);
}

void require_mesh(const mesh::MeshSizes& sizes, const config::DistributedConfig& strategy,
                  const model::TpPlan& tp_plan) {
  require(sizes.pp == 1 && sizes.cp == 1 && sizes.ep == 1,
          "a torch module can be parallelized only over dp_replicate, dp_shard and tp",
          "use a mesh without pp, cp and ep ranks");
  require(sizes.tp == 1 || !tp_plan.rules.empty(),
          "the mesh has tp ranks, but the tensor-parallel plan has no rules",
          "pass a tensor-parallel plan with rules, or use a mesh without tp ranks");
  const auto* megatron = std::get_if<config::MegatronFSDPConfig>(&strategy);
  const bool whole = std::holds_alternative<config::DDPConfig>(strategy) ||
                     (megatron != nullptr && megatron->zero_dp_strategy == 0);
  require(!whole || sizes.dp_shard == 1,
          "the strategy shards no parameters, but the mesh has dp_shard ranks",
          "use dp_replicate for all ranks");
}

// Throws Error(kPlan) if a torch module does not support a key of the strategy. Returns whether
// units are recomputed in backward.
bool require_keys(const config::DistributedConfig& strategy) {
  const auto checkpointing = config::checkpointing_of(strategy);
  require(checkpointing == config::ActivationCheckpointing::kOff ||
              checkpointing == config::ActivationCheckpointing::kFull,
          "for a torch module, activation checkpointing recomputes whole units only",
          "use activation_checkpointing = full, or checkpoint parts inside the module");
  require(!layout::autocast_dtype(strategy), "autocast_dtype does not apply to torch modules",
          "leave it out, and enable autocast in the module's forward");
  require(config::fp8_of(strategy) == config::Fp8Recipe::kNone,
          "fp8 does not apply to torch modules", "leave fp8 out");
  return checkpointing == config::ActivationCheckpointing::kFull;
}

config::Plan plan_of(const torch::nn::Module& module, const config::DistributedConfig& strategy) {
  config::Plan plan;
  plan.strategy = strategy;
  const std::vector<at::Tensor> parameters = module.parameters();
  if (!parameters.empty()) plan.model.dtype = tensor::dtype_name(parameters.front().scalar_type());
  return plan;
}

ModuleUnits units_of(const std::shared_ptr<torch::nn::Module>& module, const config::Plan& plan,
                     model::TpPlan tp_plan, const mesh::MeshLayout& mesh) {
  require_mesh(mesh.sizes(), plan.strategy, tp_plan);
  if (const auto* fsdp2 = std::get_if<config::FSDP2Config>(&plan.strategy)) {
    tp_plan.sequence_parallel = tp_plan.sequence_parallel || fsdp2->sequence_parallel;
  }
  return find_module_units(module, plan, tp_plan, mesh);
}

at::Tensor generator_state(c10::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(c10::Device device, const at::Tensor& state) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

nn::Tensors ModuleUnit::checkpointed(std::function<nn::Tensors(const nn::Tensors&)> segment,
                                     const nn::Tensors& inputs, bool trains) {
  const c10::Device device = inputs.empty() ? c10::Device(c10::kCPU) : inputs.front().device();
  return nn::checkpoint(
      [segment = std::move(segment), device, first = generator_state(device)](
          const nn::Tensors& given, nn::RecomputeTape& tape) {
        if (!tape.again()) return segment(given);
        const at::Tensor now = generator_state(device);
        set_generator_state(device, first);
        nn::Tensors outputs = segment(given);
        set_generator_state(device, now);
        return outputs;
      },
      inputs, trains);
}

ShardedModule::ShardedModule(std::shared_ptr<torch::nn::Module> module,
                             const runtime::DeviceMesh& mesh,
                             const config::DistributedConfig& strategy,
                             const model::TpPlan& tp_shard_plan)
    : ShardedModule(module, mesh, plan_of(*module, strategy),
                    units_of(module, plan_of(*module, strategy), tp_shard_plan, mesh.layout())) {}

ShardedModule::ShardedModule(std::shared_ptr<torch::nn::Module> module,
                             const runtime::DeviceMesh& mesh, const config::Plan& plan,
                             ModuleUnits found)
    : ShardedParameters(std::move(found.layout), mesh),
      module_(std::move(module)),
      strategy_(plan.strategy),
      units_(std::move(found.modules)),
      layers_(std::move(found.layers)) {
  require(!std::holds_alternative<config::MegatronConfig>(strategy_),
          "the strategy megatron is not supported for modules",
          "use MegatronFSDPConfig with zero_dp_strategy = 0, 1 or 2, or FSDP2Config");
  const bool recompute = require_keys(strategy_);
  dry_run_ = ModuleDryRun::begin(mesh.world());
  if (const auto* fsdp2 = std::get_if<config::FSDP2Config>(&strategy_)) {
    const auto& dtype = fsdp2->mp_policy.output_dtype;
    if (dtype) output_dtype_ = tensor::parse_dtype(*dtype);
  }
  std::vector<nn::UnitUse> uses;
  for (size_t unit = 0; unit < units_.size(); ++unit) uses.push_back({static_cast<int>(unit)});
  data_parallel_ = DataParallel::make({found.parameters, uses}, layout(), mesh,
                                      data_parallel_options(plan, layout(), mesh.device()));
  // Gradients are means over the data-parallel ranks, as in PyTorch.
  data_parallel_->set_gradient_divide_factor(static_cast<double>(mesh.group("dp_cp").size()));
  add_groups(data_parallel_->groups());
  const int64_t every = config::checkpointing_every(strategy_);
  for (size_t use = 0; use < units_.size(); ++use) {
    const model::Unit& unit = layout().units[use];
    const bool trains = std::any_of(unit.parameters.begin(), unit.parameters.end(), [&](int i) {
      return layout().parameters[static_cast<size_t>(i)].trainable;
    });
    const bool is_root = unit.kind == model::UnitKind::kRoot;
    units_[use]->set_strategy({.hooks = this,
                               .use = use,
                               .checkpoint = recompute && !is_root && unit.layer % every == 0,
                               .trains = trains});
  }
  for (auto& [layer, style] : layers_) {
    style.tp = &mesh.group("tp");
    layer->set_style(style);
  }
}

ShardedModule::~ShardedModule() {
  for (ModuleUnit* unit : units_) unit->set_strategy({});
  for (const auto& [layer, style] : layers_) layer->set_style({});
}

void ShardedModule::before_unit(size_t use, std::span<at::Tensor> inputs) {
  const bool in_backward = torch::autograd::get_current_graph_task_id() >= 0;
  if (!in_backward) {
    if (at::GradMode::is_enabled()) {
      if (dry_run_) dry_run_->forward_begins();
      will_finish_ = false;  // may still be true if the last backward pass threw
      take_gradients();
    }
    if (std::exchange(updated_, false)) data_parallel_->wait_for_updates();
  }
  data_parallel_->hooks().before_unit(use, inputs);
}

void ShardedModule::after_unit(size_t use, std::span<at::Tensor> outputs) {
  if (output_dtype_ && layout().units[use].kind == model::UnitKind::kRoot) {
    for (at::Tensor& output : outputs) {
      if (output.is_floating_point()) output = output.to(*output_dtype_);
    }
  }
  data_parallel_->hooks().after_unit(use, outputs);
  if (!at::GradMode::is_enabled()) return;
  for (const at::Tensor& output : outputs) {
    if (!output.requires_grad()) continue;
    output.register_hook([this](const at::Tensor&) {
      if (std::exchange(will_finish_, true)) return;
      if (dry_run_) dry_run_->backward_begins();
      torch::autograd::Engine::get_default_engine().queue_callback([this] { finish_backward(); });
    });
  }
}

void ShardedModule::finish_backward() {
  will_finish_ = false;
  updated_ = true;  // the caller may update the parameters next
  data_parallel_->finish_backward();
  show_gradients();
  if (dry_run_) dry_run_->backward_ends();
}

void ShardedModule::zero_grad() {
  data_parallel_->zero_grad();
  shown_ = false;
}

// Calls visit(leaf, gradient) for each trainable parameter whose group has a reduced gradient.
// `leaf`: the parameter's autograd leaf; `gradient`: a view of this rank's shard of the parameter's
// gradient.
void ShardedModule::for_each_gradient(
    const std::function<void(const at::Tensor& leaf, const at::Tensor& gradient)>& visit) {
  for_each_owned([&](ParamGroup& group, size_t i, const LocalParameter& owned) {
    const at::Tensor& flat = group.flat_grad();
    if (!owned.trainable || owned.number > 0 || !flat.defined() || flat.numel() == 0) return;
    visit(group.leaf(i), group.pieces().view(flat, owned.piece));
  });
}

void ShardedModule::show_gradients() {
  for_each_gradient([&](const at::Tensor& leaf, const at::Tensor& gradient) {
    // A parameter that is still full after backward gets no .grad, because its gradient is a shard
    // and has another shape.
    if (leaf.sizes() != gradient.sizes()) return;
    // The alias is not an autograd view, because optimizers detach gradients in place, which views
    // do not allow.
    leaf.mutable_grad() = untracked_alias(gradient);
    shown_ = true;
  });
}

void ShardedModule::take_gradients() {
  if (!std::exchange(shown_, false)) return;
  const at::NoGradGuard no_grad;
  bool kept = false;
  for_each_gradient([&](const at::Tensor& leaf, const at::Tensor& /*gradient*/) {
    kept = kept || leaf.grad().defined();
  });
  if (!kept) return data_parallel_->zero_grad();
  for_each_gradient([&](const at::Tensor& leaf, const at::Tensor& gradient) {
    at::Tensor& shown = leaf.mutable_grad();
    if (!shown.defined()) {
      gradient.zero_();
    } else if (!shown.is_alias_of(gradient)) {
      gradient.copy_(shown);
    }
    shown.reset();
  });
}

}  // namespace am::parallel
