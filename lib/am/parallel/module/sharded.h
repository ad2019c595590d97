// Wrapper of a torch::nn module that lets a strategy shard the module (sharded_module.h).
//
//   struct Block : torch::nn::Module {
//     at::Tensor forward(const at::Tensor& x) { return at::tanh(x); }
//   };
//   struct Gpt : torch::nn::Module {
//     Gpt() {
//       for (int i = 0; i < 12; ++i) blocks->push_back(std::make_shared<Sharded<Block>>());
//     }
//     at::Tensor forward(at::Tensor x) {
//       for (const auto& block : *blocks) x = block->as<Sharded<Block>>()->forward(x);
//       return x;
//     }
//     torch::nn::ModuleList blocks = register_module("blocks", torch::nn::ModuleList());
//   };
//   const auto model = std::make_shared<Sharded<Gpt>>();
//
// Modules of libtorch have no forward hooks. Sharded<M> is an M whose forward() calls M's forward()
// between the hooks of a strategy; without a strategy, there are no hooks. A program must not call
// M's forward() directly, because outside of the hooks the parameters are only shards. The hooks
// receive the tensors of arguments and results that are tensors, optional tensors, or vectors,
// arrays, pairs and tuples of them; other arguments are passed to M's forward() unchanged. For
// another class that contains tensors, the program declares visit_tensors() in the namespace of the
// class.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "am/nn/checkpoint.h"
#include "am/nn/hooks.h"

namespace am::parallel {

// A function to be called for each tensor of a value. Its type is a class of this namespace, so
// that argument-dependent lookup finds all overloads of visit_tensors().
struct TensorVisitor {
  std::function<void(at::Tensor& tensor)> visit;
};

// Calls the visitor for each tensor of a value.
inline void visit_tensors(at::Tensor& value, const TensorVisitor& visitor) { visitor.visit(value); }
inline void visit_tensors(std::optional<at::Tensor>& value, const TensorVisitor& visitor) {
  if (value) visitor.visit(*value);
}
template <typename T>
concept HasTensors = requires(T& value, const TensorVisitor& visitor) {
  visit_tensors(value, visitor);
};
template <typename T>
void visit_if_any(T& value, const TensorVisitor& visitor) {
  static_assert(!std::is_const_v<T>, "the value must not be const: hooks replace its tensors");
  if constexpr (HasTensors<T>) visit_tensors(value, visitor);
}

template <typename T>
void visit_tensors(std::vector<T>& value, const TensorVisitor& visitor) {
  for (T& each : value) visit_if_any(each, visitor);
}
template <typename T, size_t kSize>
void visit_tensors(std::array<T, kSize>& value, const TensorVisitor& visitor) {
  for (T& each : value) visit_if_any(each, visitor);
}
template <typename First, typename Second>
void visit_tensors(std::pair<First, Second>& value, const TensorVisitor& visitor) {
  visit_if_any(value.first, visitor);
  visit_if_any(value.second, visitor);
}
template <typename... T>
void visit_tensors(std::tuple<T...>& value, const TensorVisitor& visitor) {
  std::apply([&](T&... each) { (visit_if_any(each, visitor), ...); }, value);
}

// A module whose forward calls a strategy's hooks.
class ModuleUnit {
 public:
  virtual ~ModuleUnit() = default;

  struct Strategy {
    nn::UnitHooks* hooks = nullptr;  // null: no strategy
    size_t use = 0;                  // argument of the hooks: index of this unit's nn::UnitUse
    // Whether the unit keeps only its inputs for backward, which recomputes the unit. Has no effect
    // if an argument of forward() cannot be copied.
    bool checkpoint = false;
    bool trains = true;  // whether the unit has trainable parameters
  };
  void set_strategy(const Strategy& strategy) { strategy_ = strategy; }

 protected:
  const Strategy& strategy() const { return strategy_; }

  template <typename T>
  static nn::Tensors tensors_of(T& value) {
    nn::Tensors tensors;
    visit_if_any(value, {[&](at::Tensor& each) { tensors.push_back(each); }});
    return tensors;
  }
  // Replaces the tensors of `value` by `tensors`, in order.
  template <typename T>
  static void set_tensors(T& value, const nn::Tensors& tensors) {
    size_t i = 0;
    visit_if_any(value, {[&](at::Tensor& each) { each = tensors[i++]; }});
  }

  // Runs `segment` with nn::checkpoint(). The recomputation begins with the state that the random
  // generator had at the first run, so that dropout draws the same mask.
  static nn::Tensors checkpointed(std::function<nn::Tensors(const nn::Tensors&)> segment,
                                  const nn::Tensors& inputs, bool trains);

  // Calls before_unit(), `forward` with the arguments, and after_unit(). Returns forward's result.
  template <typename Forward, typename... Args>
  auto run(const Forward& forward, Args&&... args) {
    // Copies arguments that contain tensors, because hooks replace the tensors; forwards all other
    // arguments.
    std::tuple<std::conditional_t<HasTensors<std::remove_cvref_t<Args>>, std::remove_cvref_t<Args>,
                                  Args&&>...>
    held(std::forward<Args>(args)...);
    nn::Tensors inputs = tensors_of(held);
    strategy_.hooks->before_unit(strategy_.use, inputs);
    set_tensors(held, inputs);
    auto result = [&] {
      if constexpr ((std::is_copy_constructible_v<std::remove_cvref_t<Args>> && ...)) {
        using Kept = std::tuple<std::remove_cvref_t<Args>...>;
        const auto keep = [](const auto&... each) { return Kept(each...); };
        if (strategy_.checkpoint) return recomputed(forward, std::apply(keep, held), inputs);
      }
      return std::apply(forward, held);
    }();
    nn::Tensors outputs = tensors_of(result);
    strategy_.hooks->after_unit(strategy_.use, outputs);
    set_tensors(result, outputs);
    return result;
  }

 private:
  // Returns the result of `forward` for the arguments `held`, whose tensors are `inputs`. Keeps
  // only the arguments until backward, which calls `forward` again.
  template <typename Forward, typename Held>
  auto recomputed(const Forward& forward, Held held, const nn::Tensors& inputs) {
    using Result = decltype(std::apply(forward, held));
    const auto first = std::make_shared<std::optional<Result>>();
    const auto segment = [forward, held = std::move(held),
                          first](const nn::Tensors& given) mutable {
      set_tensors(held, given);
      Result result = std::apply(forward, held);
      const nn::Tensors outputs = tensors_of(result);
      if (!*first) first->emplace(std::move(result));
      return outputs;
    };
    const nn::Tensors outputs = checkpointed(segment, inputs, strategy_.trains);
    set_tensors(**first, outputs);
    return std::move(**first);
  }

  Strategy strategy_;
};

template <class M>
class Sharded : public M, public ModuleUnit {
 public:
  using M::M;

  template <typename... Args>
  auto forward(Args&&... args) {
    const auto of_module = [this](auto&&... each) {
      return M::forward(std::forward<decltype(each)>(each)...);
    };
    if (strategy().hooks == nullptr) return of_module(std::forward<Args>(args)...);
    return run(of_module, std::forward<Args>(args)...);
  }
};

}  // namespace am::parallel
