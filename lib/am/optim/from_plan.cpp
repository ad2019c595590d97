#include "am/optim/from_plan.h"

#include <ATen/ATen.h>

#include <map>
#include <string_view>
#include <utility>

#include "am/base/error.h"
#include "am/config/optimizer.h"
#include "am/optim/averaged.h"
#include "am/optim/muon.h"

namespace am::optim {

namespace {

using parallel::ParallelModel;

// The trainable parameters of this rank: the flat tensors, the runs that are updated elementwise,
// and the matrices that Muon updates.
class ParamGroups {
 public:
  explicit ParamGroups(const ParallelModel& model) {
    std::map<std::string_view, const layout::ParameterLayout*> layouts;
    for (const auto& layout : model.layout().parameters) layouts[layout.name] = &layout;
    for (const auto& group : model.groups()) {
      flats.push_back(group->trained());
      units.push_back({{}, &group->shard_group()});
      for (size_t i = 0; i < group->owned().size(); ++i) {
        const parallel::LocalParameter& owned = group->owned()[i];
        if (!owned.trainable || owned.number > 0) continue;
        const parallel::Piece& piece = group->pieces()[owned.piece];
        add(*layouts.at(owned.name), {flats.size() - 1, piece.flat_offset, piece.flat_length});
      }
    }
  }

  std::vector<at::Tensor> flats;   // the trainable part of each ParamGroup's flat tensor
  std::vector<ParameterRun> runs;  // parameters that are updated elementwise
  std::vector<MatrixUnit> units;   // matrices that Muon updates: one MatrixUnit per ParamGroup

  // Returns the ranges of all trainable parameters.
  std::vector<FlatRange> ranges() const {
    std::vector<FlatRange> all;
    for (const ParameterRun& run : runs) all.push_back(run.range);
    for (const MatrixUnit& unit : units) {
      for (const auto& matrix : unit.matrices) all.push_back(matrix.range);
    }
    return all;
  }

 private:
  void add(const layout::ParameterLayout& layout, const FlatRange& range) {
    if (layout.orthogonalized) {
      units.back().matrices.push_back({&layout, range});
      return;
    }
    // Joins adjacent parameters with equal options to one run, which one kernel updates. If all
    // trainable parameters of a ParamGroup are updated elementwise and have equal options, they are
    // one run.
    if (!runs.empty()) {
      ParameterRun& last = runs.back();
      if (last.options == layout.optimizer && last.range.flat == range.flat &&
          last.range.end() == range.offset) {
        last.range.length += range.length;
        return;
      }
    }
    runs.push_back({range, layout.optimizer});
  }
};

}  // namespace

ElementwiseOptions elementwise_options(const config::OptimizerSection& optimizer, bool offloaded) {
  ElementwiseOptions options;
  options.formula = optimizer.name == "sgd"    ? Formula::kSgd
                    : optimizer.name == "adam" ? Formula::kAdam
                                               : Formula::kAdamW;
  options.beta1 = optimizer.betas[0];
  options.beta2 = optimizer.betas[1];
  options.eps = optimizer.eps;
  options.lr = optimizer.lr;
  options.weight_decay = optimizer.weight_decay;
  options.momentum = config::momentum_of(optimizer);
  options.nesterov = config::nesterov_of(optimizer);
  options.offloaded = offloaded;
  return options;
}

namespace {

std::unique_ptr<Optimizer> without_average(const config::OptimizerSection& optimizer,
                                           const ParamGroups& groups, const ParallelModel& model) {
  const ElementwiseOptions elementwise = elementwise_options(optimizer, model.offloaded());
  if (optimizer.name != "muon") {
    return std::make_unique<Elementwise>(groups.flats, groups.runs, elementwise);
  }
  MuonOptions options;
  options.momentum = config::momentum_of(optimizer);
  options.nesterov = config::nesterov_of(optimizer);
  options.match_rms_adamw = optimizer.adjust_lr == "match_rms_adamw";
  options.rest = elementwise;
  return std::make_unique<Muon>(groups.flats, groups.units, groups.runs, model.mesh(), options);
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const config::Plan& plan, const ParallelModel& model) {
  const ParamGroups groups(model);
  auto made = without_average(plan.optimizer, groups, model);
  if (plan.optimizer.ema_decay == 0.0) return made;
  return std::make_unique<Averaged>(std::move(made), groups.flats, groups.ranges(),
                                    plan.optimizer.ema_decay, model.offloaded());
}

std::vector<StateTensor> parameter_state(const Optimizer& optimizer, const ParallelModel& model,
                                         size_t g, size_t i) {
  const parallel::ParamGroup& group = *model.groups()[g];
  const parallel::LocalParameter& owned = group.owned()[i];
  if (!owned.trainable) return {};
  const parallel::Piece& piece = group.pieces()[owned.piece];
  std::vector<StateTensor> states = optimizer.state_of({g, piece.flat_offset, piece.flat_length});
  for (StateTensor& state : states) {
    state.value = piece.view_of(state.value, piece.boxes[owned.number]);
  }
  return states;
}

}  // namespace am::optim
