#include "am/parallel/pp/pipeline.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>
#include <utility>

#include "am/base/error.h"
#include "am/base/fault.h"
#include "am/base/text.h"
#include "am/runtime/trace_range.h"

namespace am::parallel {

using am::pipeline::Action;
using am::pipeline::Kind;
using am::pipeline::Slot;

namespace {

// Returns a text that describes an action, for example "stage 2, forward of micro-batch 1". Actions
// on whole stages, such as 2UNSHARD, are described by the stage alone.
std::string meaning_of(const Action& action) {
  std::string stage = cat("stage ", action.stage);
  if (!has_micro_batch(action.kind)) return stage;
  const char* pass = is_compute(action.kind) ? "backward of " : "";
  if (action.kind == Kind::kForward) pass = "forward of ";
  return cat(stage, ", ", pass, "micro-batch ", action.micro_batch);
}

// Returns the pairs of ranks that exchange messages, in both directions: ranks with neighbouring
// stages, and the ranks of the first and the last stage if these stages share a weight.
std::set<runtime::Hop> hops_between(const std::vector<int64_t>& owners, bool tied) {
  std::set<runtime::Hop> hops;
  const auto add = [&](int64_t a, int64_t b) {
    if (a == b) return;
    hops.insert({a, b});
    hops.insert({b, a});
  };
  for (size_t stage = 0; stage + 1 < owners.size(); ++stage) add(owners[stage], owners[stage + 1]);
  if (tied) add(owners.front(), owners.back());
  return hops;
}

bool has_gradients(Kind kind) {
  return pipeline::makes_input_gradient(kind) || pipeline::ends_micro_batch(kind) ||
         kind == Kind::kSendBackward || kind == Kind::kRecvBackward || kind == Kind::kReduceGrad;
}

// Scope in which the backward of a unit does not reduce gradients. If the schedule has several
// stages (on all ranks together), the backward of a unit does not free parameters either; the
// pipeline's actions reduce and free. If the schedule has one stage, which is the whole model, the
// backward of a unit still frees parameters, and Pipeline::run switches the reduction on again for
// the rounds that need it.
class ListDecides {
 public:
  explicit ListDecides(std::map<int, Stage>& stages) : stages_(stages) { set(false); }
  ~ListDecides() { set(true); }
  ListDecides(const ListDecides&) = delete;
  ListDecides& operator=(const ListDecides&) = delete;

 private:
  void set(bool by_themselves) {
    for (auto& [number, stage] : stages_) {
      stage.model().data_parallel().set_requires_gradient_sync(by_themselves);
      stage.model().data_parallel().set_reshard_after_backward(by_themselves || stage.is_whole());
    }
  }

  std::map<int, Stage>& stages_;
};

}  // namespace

Pipeline::Pipeline(const pipeline::Schedule& schedule, std::map<int, Stage> stages,
                   const runtime::DeviceMesh& mesh, const HiddenForm& hidden, std::string tied)
    : schedule_(schedule),
      stages_(std::move(stages)),
      mesh_(mesh),
      hidden_(hidden),
      tied_(std::move(tied)) {
  const runtime::Group& group = mesh.group("pp");
  AM_ASSERT(schedule_.pp() == group.size(), "a schedule for a different number of ranks");
  for (int stage = 0; stage <= last_stage(); ++stage) {
    AM_ASSERT(stages_.contains(stage) == (owner(stage) == group.index()),
              "the rank's stages are not those of the schedule");
  }
  const auto lists = has_one_stage() ? schedule_.ranks : pipeline::with_communication(schedule_);
  list_ = lists.at(static_cast<size_t>(group.index()));
  channels_ = mesh.channels("pp", hops_between(schedule_.owners, !tied_.empty()));
}

at::Tensor Pipeline::run(MicroBatches& batches, const PassOptions& options) {
  if (batches.count() % schedule_.microbatches != 0) {
    throw Error(ErrorKind::kPlan,
                cat(batches.count(), " micro-batches are not a multiple of the ",
                    schedule_.microbatches, " micro-batches of schedule ", schedule_.name));
  }
  for (auto& [number, stage] : stages_) stage.forget();
  batches_ = &batches;
  options_ = options;
  loss_ = at::zeros({1}, at::TensorOptions(at::kDouble).device(mesh_.device()));
  const bool reduces = at::GradMode::is_enabled() && options.reduce;
  // If an earlier pass has set the gradients of both copies of the tied weight to their sum, one of
  // the two gradients is set to zero, so that the next sum counts the earlier passes only once.
  if (at::GradMode::is_enabled() && std::exchange(tied_is_summed_, false)) {
    if (const at::Tensor copy = tied_gradient(last_stage()); copy.defined()) copy.zero_();
  }
  const ListDecides decides(stages_);
  for (first_ = 0; first_ < batches.count(); first_ += schedule_.microbatches) {
    last_round_ = first_ + schedule_.microbatches == batches.count();
    if (has_one_stage()) {
      stages_.at(0).model().data_parallel().set_requires_gradient_sync(
          (last_round_ && options_.reduce) || !defers_gradient_sync);
    }
    run_round();
  }
  for (auto& [number, stage] : stages_) stage.model().decoder().end_dropout();
  if (reduces) sum_tied_gradients();
  say("backward");
  return std::exchange(loss_, {});
}

at::Tensor Pipeline::run_forward(MicroBatches& batches) {
  const at::NoGradGuard no_grad;
  return run(batches, {});
}

void Pipeline::say(const char* phase) const {
  if (options_.phase_over) options_.phase_over(phase);
}

at::Tensor Pipeline::tied_gradient(int stage) const {
  const auto found = stages_.find(stage);
  if (tied_.empty() || found == stages_.end()) return {};
  for (const auto& group : found->second.model().data_parallel().groups()) {
    for (const LocalParameter& owned : group->owned()) {
      if (owned.name != tied_) continue;
      const bool any = owned.trainable && group->flat_grad().defined();
      return any ? group->view_in(group->flat_grad(), owned) : at::Tensor();
    }
  }
  return {};
}

// Sets the gradients of both copies of the tied parameter to their sum. Ranks at equal positions in
// the two stages hold the same shard of the parameter. A sum of two numbers is bitwise equal in
// either order, so the copies stay equal.
void Pipeline::sum_tied_gradients() {
  if (fault::is_planted(fault::Fault::kPpTiedSum)) return;
  tied_is_summed_ = true;
  const at::Tensor first = tied_gradient(0), copy = tied_gradient(last_stage());
  if (first.defined() && copy.defined()) {
    first.add_(copy);
    copy.copy_(first);
    return;
  }
  const at::Tensor mine = first.defined() ? first : copy;
  if (!mine.defined()) return;
  const int64_t here = mesh_.group("pp").index();
  const int64_t other = owner(first.defined() ? last_stage() : 0);
  const at::Tensor sent = mine.to(mesh_.device()).contiguous();
  const at::Tensor arrived = at::empty_like(sent);
  runtime::Pending sending = channels_.at({here, other}).send(sent);
  channels_.at({other, here}).receive(arrived).wait();
  sending.wait();
  mine.add_(arrived);
}

void Pipeline::run_round() {
  const bool trains = at::GradMode::is_enabled();
  int64_t forwards = schedule_.microbatches * static_cast<int64_t>(stages_.size());
  for (const Slot& slot : list_) {
    for (const Action& action : slot.actions()) {
      if (!trains && has_gradients(action.kind)) continue;
      const runtime::TraceRange range([&] { return to_string(action); });
      try {
        perform(action);
      } catch (const Error& error) {
        // An error of kind kPeer means that another rank has failed; that rank's own error names
        // the action.
        if (error.kind() == ErrorKind::kPeer || has_one_stage()) throw;
        throw Error(error.kind(),
                    cat("in ", to_string(action), " (", meaning_of(action), "): ", error.what()),
                    error.hint());
      }
      if (on_action) on_action(action);
      if (action.kind == Kind::kForward && --forwards == 0 && last_round_) say("forward");
    }
  }
  for (auto& [hop, messages] : under_way_) {
    for (Message& message : messages) message.pending.wait();
  }
  under_way_.clear();
  read_.clear();
  sent_.clear();
  for (const auto& arriving : arriving_) AM_ASSERT(arriving.empty(), "an unused received message");
}

void Pipeline::perform(const Action& action) {
  const auto found = stages_.find(action.stage);
  AM_ASSERT(found != stages_.end(), "an action of a stage that this rank does not hold");
  Stage& stage = found->second;
  DataParallel& data_parallel = stage.model().data_parallel();
  const int64_t m = action.micro_batch;
  switch (action.kind) {
    case Kind::kForward:
      return forward(stage, action);
    case Kind::kBackward:
      hand_on(kUp, action, stage.backward(m, take(kUp, action)));
      return sync_now(data_parallel);
    case Kind::kBackwardInput:
      return hand_on(kUp, action, stage.backward_input(m, take(kUp, action)));
    case Kind::kBackwardWeight:
      stage.backward_weight(m);
      return sync_now(data_parallel);
    case Kind::kUnshard:
      // This call does not block: each unit waits for its gather before it computes.
      data_parallel.unshard("", /*async_op=*/true);
      return;
    case Kind::kReshard:
      return data_parallel.reshard("");
    case Kind::kReduceGrad:
      if (last_round_ && options_.reduce) data_parallel.reduce_gradients();
      return;
    case Kind::kSendForward:
      return send(kDown, action);
    case Kind::kRecvForward:
      return receive(kDown, action);
    case Kind::kSendBackward:
      return send(kUp, action);
    case Kind::kRecvBackward:
      return receive(kUp, action);
  }
}

const MicroBatch& Pipeline::batch(int64_t m) {
  const auto found = read_.find(m);
  return found != read_.end() ? found->second
                              : read_.emplace(m, batches_->read(first_ + m)).first->second;
}

void Pipeline::sync_now(DataParallel& data_parallel) const {
  if (!defers_gradient_sync && !has_one_stage()) data_parallel.reduce_gradients();
}

void Pipeline::forward(Stage& stage, const Action& action) {
  const int64_t m = action.micro_batch;
  MicroBatch own = batch(m);
  if (action.stage == stages_.rbegin()->first) read_.erase(m);
  if (at::GradMode::is_enabled()) {
    stage.model().decoder().begin_dropout(options_.seed, options_.step, own.first_sequence);
  }
  double divisor = options_.divisor;
  if (fault::is_planted(fault::Fault::kPpLossTwice)) {
    divisor *= static_cast<double>(schedule_.microbatches);
  }
  if (fault::is_planted(fault::Fault::kLabelsOfMicroBatch)) {
    const int64_t counted = own.labels_BT.ne(kIgnoreIndex).sum().item<int64_t>();
    divisor = static_cast<double>(std::max<int64_t>(1, counted) * batches_->count());
  }
  const at::Tensor made = stage.forward(m, std::move(own), take(kDown, action), divisor);
  if (stage.is_last()) {
    loss_.add_(made);
  } else {
    hand_on(kDown, action, made);
  }
}

void Pipeline::hand_on(Way way, const Action& action, const at::Tensor& made) {
  const int to = neighbour(way, action);
  if (to < 0) return;
  AM_ASSERT(made.defined(), "a stage has no result for its neighbour stage");
  if (owner(to) == owner(action.stage)) {
    arriving_[way][{to, action.micro_batch}] = {{}, made};
  } else {
    leaving_[way][{action.stage, action.micro_batch}] = made;
  }
}

int Pipeline::neighbour(Way way, const Action& action) const {
  const int to = way == kDown ? action.stage + 1 : action.stage - 1;
  return to < static_cast<int>(schedule_.stages()) ? to : -1;
}

at::Tensor Pipeline::hidden_like(const at::Tensor& ids_BT) const {
  const int64_t length = stages_.begin()->second.model().own_length(ids_BT.size(1));
  return hidden_of({ids_BT.size(0), length / hidden_.sequence_parts, hidden_.width});
}

at::Tensor Pipeline::hidden_of(at::IntArrayRef shape) const {
  return at::empty(shape, at::TensorOptions(hidden_.dtype).device(mesh_.device()));
}

void Pipeline::send(Way way, const Action& action) {
  auto made = leaving_[way].extract({action.stage, action.micro_batch});
  AM_ASSERT(!made.empty(), "a message is sent before its stage has computed it");
  const at::Tensor tensor = made.mapped().contiguous();
  // The receiver expects a message of the size that HiddenForm defines; a message of any other size
  // would abort the receiver's process.
  AM_ASSERT(
      tensor.dim() == 3 && tensor.size(2) == hidden_.width && tensor.scalar_type() == hidden_.dtype,
      cat("a message is not [.., .., ", hidden_.width, "] in the dtype of hidden states"));
  if (way == kDown) sent_[{action.stage, action.micro_batch}] = tensor.sizes().vec();
  const runtime::Hop hop{owner(action.stage), owner(neighbour(way, action))};
  std::deque<Message>& under_way = under_way_[hop];
  if (under_way.size() == size_t{pipeline::kMostUnderWay}) {
    under_way.front().pending.wait();
    under_way.pop_front();
  }
  under_way.push_back({channels_.at(hop).send(tensor), tensor});
}

void Pipeline::receive(Way way, const Action& action) {
  const int from = way == kDown ? action.stage - 1 : action.stage + 1;
  const Place place{action.stage, action.micro_batch};
  // A gradient has the shape of the hidden states that this stage has sent. The micro-batch itself
  // cannot give the shape, because forward() may already have removed it from read_.
  const at::Tensor tensor =
      way == kDown ? hidden_like(batch(action.micro_batch).ids_BT) : hidden_of(sent_.at(place));
  const runtime::Hop hop{owner(from), owner(action.stage)};
  arriving_[way][place] = {channels_.at(hop).receive(tensor), tensor};
}

at::Tensor Pipeline::take(Way way, const Action& action) {
  const auto& stage = stages_.at(action.stage);
  if (way == kDown ? stage.is_first() : stage.is_last()) return {};
  auto found = arriving_[way].extract({action.stage, action.micro_batch});
  AM_ASSERT(!found.empty(), "a stage runs before its input has arrived");
  found.mapped().pending.wait();
  return found.mapped().tensor;
}

}  // namespace am::parallel
