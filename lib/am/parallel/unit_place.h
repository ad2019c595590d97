// The FSDP unit whose work was last enqueued on a device. Error messages of the device name this
// unit.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace am::parallel {

// The threads that run forward and backward write a UnitPlace, one thread at a time; any thread may
// read it.
class UnitPlace {
 public:
  // `names`: for each use of a unit in forward order, the name of the unit.
  explicit UnitPlace(std::vector<std::string> names) : names_(std::move(names)) {}

  void forward(size_t use) { set(2 * use); }
  void backward(size_t use) { set(2 * use + 1); }
  void nowhere() { at_ = kNowhere; }
  // Returns the name of the unit with this use.
  const std::string& name(size_t use) const { return names_.at(use); }

  // Returns, for example, "the forward of model.layers.3"; empty outside of any unit.
  std::string text() const;
  // Returns the sequence number of the last forward() or backward(). All UnitPlaces of a process
  // share one counter, so of two UnitPlaces the one with the larger number entered a unit later.
  uint64_t since() const { return since_; }

 private:
  static constexpr size_t kNowhere = SIZE_MAX;
  void set(size_t at);

  std::vector<std::string> names_;
  std::atomic<size_t> at_{kNowhere};
  std::atomic<uint64_t> since_{0};
};

}  // namespace am::parallel
