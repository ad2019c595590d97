#include "am/train/verify_layout.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/config/batch.h"
#include "am/data/sampler.h"
#include "am/job/job.h"
#include "am/job/scaled_down_job.h"
#include "am/runtime/world.h"
#include "am/tensor/redistribute.h"
#include "am/train/output_watch.h"
#include "am/train/trainer.h"

namespace am::train {

namespace {

using Named = std::map<std::string, at::Tensor>;

double norm_of(const at::Tensor& x) { return at::linalg_vector_norm(x).item<double>(); }

// ---- the two plans ------------------------------------------------------------------------------

const char* const kDtype = "float64";

void compute_in_float64(config::DistributedConfig& strategy) {
  if (auto* fsdp2 = std::get_if<config::FSDP2Config>(&strategy)) {
    fsdp2->mp_policy = {.param_dtype = kDtype, .reduce_dtype = kDtype, .output_dtype = kDtype};
    fsdp2->autocast_dtype.reset();
    fsdp2->backend = "gloo";
  } else if (auto* megatron = std::get_if<config::MegatronFSDPConfig>(&strategy)) {
    megatron->grad_reduce_in_fp32 = megatron->preserve_fp32_weights = false;
    megatron->backend = "gloo";
  } else if (auto* own = std::get_if<config::MegatronConfig>(&strategy)) {
    own->params_dtype = kDtype;
    own->grad_reduce_in_fp32 = false;
    own->backend = "gloo";
  } else if (auto* ddp = std::get_if<config::DDPConfig>(&strategy)) {
    ddp->autocast_dtype.reset();
    ddp->backend = "gloo";
  }
}

config::Plan in_float64(const config::Plan& given, int64_t steps) {
  config::Plan plan = job::without_files(given);
  plan.model.dtype = kDtype;
  compute_in_float64(plan.strategy);
  plan.train.max_steps = steps;
  plan.train.max_grad_norm = 0.0;
  plan.train.loss_scale = 0.0;
  plan.train.on_nonfinite = "continue";  // a NaN does not end the job; it is a difference
  return plan;
}

// Returns a plan that runs the steps of `plan` on one rank, with one micro-batch per step. A plan
// with FP8 keeps train.micro_batch_size, because each micro-batch has its own FP8 scales. `plan`
// must be in float64 and must set train.global_batch_size.
config::Plan on_one_rank(config::Plan plan) {
  const config::Fp8Recipe fp8 = config::fp8_of(plan.strategy);
  plan.mesh = {.world_size = 1};
  plan.strategy = config::FSDP2Config{.fp8 = fp8};
  compute_in_float64(plan.strategy);
  plan.pipeline = {};
  plan.context = {};
  if (fp8 == config::Fp8Recipe::kNone) {
    plan.train.micro_batch_size = plan.train.global_batch_size;
  }
  return plan;
}

// ---- reference values from one rank -------------------------------------------------------------

// The values of one step on the single rank.
struct Reference {
  Named outputs;     // outputs of FSDP units, by UnitOutput::name, with the full batch and sequence
  Named gradients;   // gradients by parameter name
  Named parameters;  // parameters after the update, by name
  double loss = 0.0, norm = 0.0;  // loss and gradient norm
  double size = 0.0;              // 2-norm of all parameters
};

// Smallest divisor of the difference of a gradient or parameter, as a fraction of the norm of all
// gradients or of all parameters. Tensors with a smaller norm consist of rounding errors.
constexpr double kSmall = 1e-6;

void for_each_gradient(
    parallel::ParallelModel& model,
    const std::function<void(const parallel::LocalParameter&, const at::Tensor&)>& visit) {
  model.for_each_owned(
      [&](parallel::ParamGroup& group, size_t i, const parallel::LocalParameter& owned) {
        if (!owned.trainable) return;
        const at::Tensor& flat = group.flat_grad();
        visit(owned, flat.defined() ? group.view_in(flat, i) : at::zeros_like(owned.value));
      });
}

run_folder::RunFolder no_folder() {
  return run_folder::RunFolder(std::filesystem::temp_directory_path() / "am-no-such-run");
}

std::vector<Reference> train_on_one_rank(const config::Plan& plan,
                                         const model::ModelConfig& config) {
  std::vector<Reference> steps(static_cast<size_t>(plan.train.max_steps));
  runtime::run_ranks(1, [&](const runtime::World& world) {
    Reference* now = nullptr;
    Trainer* trained = nullptr;
    TrainerCallbacks callbacks;
    callbacks.phase = [&](const char* phase) {
      if (std::string_view(phase) != "backward") return;
      for_each_gradient(trained->model(), [&](const auto& owned, const at::Tensor& gradient) {
        now->gradients[owned.name] = gradient.clone();
      });
    };
    Trainer trainer(job::make_job(plan, config, 1), world, no_folder(), callbacks);
    trained = &trainer;
    parallel::StageModel& stage = *trainer.model().stages().begin()->second;
    OutputWatch watch(stage, [&](const UnitOutput& unit) {
      at::Tensor& whole = now->outputs[unit.name];
      whole = unit.call == 0 ? unit.output.clone() : at::cat({whole, unit.output});
    });
    for (size_t step = 0; step < steps.size(); ++step) {
      now = &steps[step];
      watch.begin();
      const observe::StepMetrics metrics = trainer.train_step(static_cast<int64_t>(step));
      now->loss = metrics.loss;
      now->norm = metrics.grad_norm;
      trainer.model().for_each_owned([&](auto& group, size_t /*i*/, const auto& owned) {
        const at::Tensor value = group.value_of(owned);
        now->parameters[owned.name] = value.clone();
        const double norm = norm_of(value);
        now->size = std::sqrt(now->size * now->size + norm * norm);
      });
    }
  });
  return steps;
}

// ---- comparison of a rank of the layout ---------------------------------------------------------

// Returns difference / norm: 0 if the difference is 0, infinity if the ratio is not finite.
double relative(double difference, double norm) {
  if (difference == 0.0) return 0.0;
  const double ratio = difference / norm;
  return std::isfinite(ratio) ? ratio : std::numeric_limits<double>::infinity();
}

// Kinds of values that are compared. If several kinds differ in a step, only the kind that is first
// in this list is reported.
enum class What { kOutput, kLoss, kGradient, kNorm, kParameter };
constexpr std::array<const char*, 5> kWhat = {"output", "loss", "gradient", "gradient norm",
                                              "parameter"};

struct Difference {
  int64_t step = 0;
  What what = What::kOutput;
  // Sort key: if several differences of one kind occur in a step, the one with the smallest `place`
  // is reported.
  int64_t place = 0;
  std::string name;
  int64_t stage = 0;
  int64_t rank = 0;
  double size = 0.0;

  auto order() const { return std::tuple(step, what, place, -size); }
};

at::Tensor part_of(const at::Tensor& whole, const mesh::Box& box) {
  at::Tensor part = whole;
  for (size_t dim = 0; dim < box.shape.size(); ++dim) {
    part = part.narrow(static_cast<int64_t>(dim), box.offset[dim], box.shape[dim]);
  }
  return part;
}

// Trains one rank of the layout, and compares its values with the single rank's.
class Comparison {
 public:
  Comparison(const job::Job& job, const runtime::World& world,
             const std::vector<Reference>& reference, double bound)
      : plan_(job.plan), reference_(reference), bound_(bound), rank_(world.rank()) {
    TrainerCallbacks callbacks;
    callbacks.phase = [this](const char* phase) {
      if (std::string_view(phase) == "backward") compare_gradients();
    };
    trainer_ = std::make_unique<Trainer>(job, world, no_folder(), callbacks);
    const auto& parameters = trainer_->model().layout().parameters;
    for (size_t i = 0; i < parameters.size(); ++i) {
      places_[parameters[i].name] = -static_cast<int64_t>(i);
      stages_[parameters[i].name] = parameters[i].stage;
    }
    for (const auto& [number, stage] : trainer_->model().stages()) {
      watches_.push_back(std::make_unique<OutputWatch>(
          *stage, [this, number = number, &stage = *stage](const UnitOutput& unit) {
            compare_output(number, stage, unit);
          }));
    }
  }

  // Trains, and returns the rank's differences above the bound. Sets `largest` to the largest
  // difference within the bound.
  std::vector<Difference> run(double& largest) {
    for (step_ = 0; step_ < static_cast<int64_t>(reference_.size()); ++step_) {
      for (auto& watch : watches_) watch->begin();
      const observe::StepMetrics metrics = trainer_->train_step(step_);
      note(What::kLoss, 0, {}, 0,
           relative(std::abs(metrics.loss - now().loss), std::abs(now().loss)));
      note(What::kNorm, 0, {}, 0, relative(std::abs(metrics.grad_norm - now().norm), now().norm));
      trainer_->model().for_each_owned([&](auto& group, size_t /*i*/, const auto& owned) {
        if (drifting_.count(owned.name) > 0) return;
        compare(What::kParameter, owned, group.value_of(owned), now().parameters.at(owned.name),
                kSmall * now().size);
      });
    }
    largest = largest_;
    return std::move(found_);
  }

 private:
  const Reference& now() const { return reference_[static_cast<size_t>(step_)]; }

  void note(What what, int64_t place, const std::string& name, int64_t stage, double size) {
    if (size > bound_) {
      found_.push_back({step_, what, place, name, stage, rank_, size});
    } else {
      largest_ = std::max(largest_, size);
    }
  }

  // Compares `mine` with this rank's part of `whole`. Records the norm of their difference, divided
  // by the larger of `least` and the norm of `whole`. Returns the norm of their difference, divided
  // by the norm of `whole`.
  double compare(What what, const parallel::LocalParameter& owned, const at::Tensor& mine,
                 const at::Tensor& whole, double least) {
    const at::Tensor wanted = part_of(whole, owned.box);
    const double norm = norm_of(whole);
    const double difference = norm_of(mine.to(wanted.device()) - wanted);
    note(what, places_.at(owned.name), owned.name, stages_.at(owned.name),
         relative(difference, std::max(norm, least)));
    return relative(difference, norm);
  }

  // Compares the gradients. A gradient that is zero except for rounding has no meaningful
  // direction, but an optimizer may still make an update of full size. From then on, the
  // parameter's values are no longer compared, but its gradients are.
  void compare_gradients() {
    for_each_gradient(trainer_->model(), [&](const auto& owned, const at::Tensor& gradient) {
      const double own = compare(What::kGradient, owned, gradient, now().gradients.at(owned.name),
                                 kSmall * now().norm);
      if (own > bound_) drifting_.insert(owned.name);
    });
  }

  void compare_output(int number, parallel::StageModel& stage, const UnitOutput& unit) {
    const at::Tensor& output = unit.output;
    const runtime::DeviceMesh& mesh = trainer_->model().mesh();
    const data::BatchLayout batches = {plan_.train.micro_batch_size, mesh.group("dp").size(),
                                       mesh.group("dp").index()};
    at::Tensor wanted = now().outputs.at(unit.name).narrow(
        0, data::micro_batch_position(unit.call, batches), output.size(0));
    // The positions of the sequence that this rank computes; -1 stands for padding.
    const auto integers = at::TensorOptions(at::kLong);
    const nn::SequencePart& part = stage.decoder().sequence_part();
    at::Tensor positions = part.of(at::arange(wanted.size(1), integers), -1);
    if (positions.size(0) != output.size(1)) {
      positions = tensor::local_chunk(positions, 0, mesh.group("tp"));
    }
    const at::Tensor real = at::nonzero(positions.ge(0)).view({-1});
    const bool sliced = output.size(2) != wanted.size(2);
    if (sliced) {
      wanted = wanted.narrow(2, stage.vocabulary_slice().offset, stage.vocabulary_slice().size);
    }
    wanted = wanted.index_select(1, positions.index_select(0, real));
    const at::Tensor mine = output.index_select(1, real);
    const double size = relative(norm_of(mine - wanted), norm_of(wanted));
    note(What::kOutput, unit.place, unit.name, number, size);
  }

  const config::Plan& plan_;
  const std::vector<Reference>& reference_;
  const double bound_;
  const int64_t rank_;
  int64_t step_ = 0;
  std::map<std::string, int64_t> places_, stages_;
  std::set<std::string> drifting_;  // names of parameters whose gradients were rounding errors
  std::unique_ptr<Trainer> trainer_;
  std::vector<std::unique_ptr<OutputWatch>> watches_;
  std::vector<Difference> found_;
  double largest_ = 0.0;
};

}  // namespace

LayoutVerdict verify_layout(const config::Plan& plan, const model::ModelConfig& config,
                            const VerifyOptions& options) {
  job::Job job = job::make_job(in_float64(plan, options.steps), config, plan.mesh.world_size);
  const mesh::MeshSizes& sizes = job.layout.mesh.sizes();
  if (sizes.cp > 1 && config::fp8_of(plan.strategy) != config::Fp8Recipe::kNone) {
    throw Error(ErrorKind::kUsage,
                "context parallel ranks scale FP8 products by their own part of the sequence, and "
                "cannot be compared with one rank",
                "set strategy.fp8 = \"none\" to compare everything else");
  }
  job.plan.train.global_batch_size = config::batch_shape(job.plan, sizes.dp()).sequences;
  const std::vector<Reference> reference = train_on_one_rank(on_one_rank(job.plan), config);
  std::vector<Difference> found;
  LayoutVerdict verdict{.steps = options.steps};
  std::mutex mutex;
  runtime::run_ranks(sizes.world_size(), [&](const runtime::World& here) {
    double largest = 0.0;
    std::vector<Difference> mine = Comparison(job, here, reference, options.bound).run(largest);
    const std::lock_guard lock(mutex);
    found.insert(found.end(), mine.begin(), mine.end());
    verdict.largest = std::max(verdict.largest, largest);
  });
  const auto first = std::min_element(
      found.begin(), found.end(),
      [](const Difference& a, const Difference& b) { return a.order() < b.order(); });
  if (first == found.end()) return verdict;
  verdict.divergence = Divergence{.step = first->step + 1,
                                  .what = kWhat[static_cast<size_t>(first->what)],
                                  .name = first->name,
                                  .stage = first->stage,
                                  .rank = first->rank,
                                  .difference = first->size};
  return verdict;
}

}  // namespace am::train
