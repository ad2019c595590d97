#include "am/values/two_sources.h"

#include <ATen/ATen.h>

#include <exception>
#include <optional>

#include "am/base/error.h"
#include "am/base/first_line.h"
#include "am/base/map_guard.h"
#include "am/base/text.h"
#include "am/checkpoint/block_buffer.h"
#include "am/checkpoint/read_tensor.h"
#include "am/frameworks/open_weights.h"
#include "am/inspect/target.h"
#include "am/stored/row_blocks.h"
#include "am/tensor/dtype.h"
#include "am/tensor/redistribute.h"
#include "am/values/on_threads.h"

namespace am::values {
namespace {

// Largest number of elements of each tensor that are compared at a time, unless one row has more.
// Small enough for the cache of a core.
constexpr int64_t kPairBlock = int64_t{256} << 10;

}  // namespace

std::unique_ptr<stored::TensorSource> open_weights_at(const std::filesystem::path& path) {
  const inspect::Target target = inspect::find_target(path);
  if (target.kind == inspect::TargetKind::kJob) {
    throw Error(ErrorKind::kUsage, cat(target.path.string(), " has a running job"),
                "name one of its checkpoints: RUN/checkpoints/step-N");
  }
  if (target.kind != inspect::TargetKind::kWeights) {
    throw Error(ErrorKind::kUsage, cat(target.path.string(), " is a plan, not a checkpoint"));
  }
  return frameworks::open_tensor_source(target.path, stored::OnDamage::kReport);
}

Side Side::at(const std::filesystem::path& path) {
  Side side;
  side.owned_ = open_weights_at(path);
  side.files_ = side.owned_.get();
  return side;
}

Side::Side(ParameterView& ranks) : ranks_(&ranks) {
  for (const HeldParameter& each : ranks.parameters()) {
    index_.emplace(each.name, held_.size());
    held_.push_back({each.name, each.shape, each.dtype, {}});
  }
}

const std::vector<stored::StoredTensor>& Side::tensors() const {
  return files_ != nullptr ? files_->tensors() : held_;
}

const stored::StoredTensor* Side::find(std::string_view name) const {
  if (files_ != nullptr) return files_->find(name);
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &held_[found->second];
}

const HeldParameter& Side::parameter(std::string_view name) const {
  return ranks_->parameters()[index_.find(name)->second];
}

Side opened(Session& session) {
  if (const auto* source = session.view().source()) return Side(*source);
  return Side(values_of(session));
}

int64_t bytes_of(const Side& side) {
  int64_t bytes = 0;
  for (const stored::StoredTensor& tensor : side.tensors()) bytes += tensor.bytes();
  return bytes;
}

namespace {

struct PairBuffers {
  checkpoint::BlockBuffer left, right;
};

void for_each_stored_pair(Session& session, const stored::TensorSource& left,
                          const stored::StoredTensor& a, const stored::TensorSource& right,
                          const stored::StoredTensor& b, const VisitPair& visit) {
  std::vector<PairBuffers> buffers(most_threads());
  std::vector<mesh::Box> blocks;
  stored::for_each_row_block(mesh::Box::whole(a.shape), kPairBlock,
                             [&](const mesh::Box& block) { blocks.push_back(block); });
  on_threads(blocks.size(), [&](size_t thread, size_t number) {
    const at::NoGradGuard no_grad;  // set here, because a guard applies only to its own thread
    const mesh::Box& box = blocks[number];
    const at::Tensor of_left = buffers[thread].left.block(box.shape, tensor::scalar_type(a.dtype));
    const at::Tensor of_right =
        buffers[thread].right.block(box.shape, tensor::scalar_type(b.dtype));
    checkpoint::read(left, a.name, box, of_left);
    checkpoint::read(right, b.name, box, of_right);
    forget_read_pages(of_left.nbytes() + of_right.nbytes());
    session.saw_bytes(static_cast<int64_t>(of_left.nbytes()));
    return visit(number, of_left, of_right) && !session.is_interrupted();
  });
}

}  // namespace

void for_each_pair(Session& session, const Side& left, const stored::StoredTensor& a,
                   const Side& right, const stored::StoredTensor& b, const VisitPair& visit) {
  if (left.files() != nullptr && right.files() != nullptr) {
    return for_each_stored_pair(session, *left.files(), a, *right.files(), b, visit);
  }
  const at::NoGradGuard no_grad;
  const bool left_on_ranks = left.ranks() != nullptr;
  const Side& on_ranks = left_on_ranks ? left : right;
  const stored::TensorSource& files = left_on_ranks ? *right.files() : *left.files();
  const stored::StoredTensor& stored = left_on_ranks ? b : a;
  checkpoint::BlockBuffer buffer;
  size_t number = 0;
  bool goes_on = true;
  on_ranks.ranks()->visit_parts(
      on_ranks.parameter(a.name), mesh::Box::whole(a.shape), [&](const ParameterView::Part& part) {
        if (!part.first_replica) return goes_on;
        stored::for_each_row_block(part.box, kPairBlock, [&](const mesh::Box& box) {
          if (!goes_on) return;
          const at::Tensor of_files = buffer.block(box.shape, tensor::scalar_type(stored.dtype));
          checkpoint::read(files, stored.name, box, of_files);
          const at::Tensor of_ranks = tensor::view_box(part.values, part.box.offset, box).cpu();
          goes_on = visit(number++, left_on_ranks ? of_ranks : of_files,
                          left_on_ranks ? of_files : of_ranks) &&
                    !session.is_interrupted();
        });
        return goes_on;
      });
}

std::vector<std::vector<double>> on_all_ranks(ParameterView& view,
                                              const std::function<std::vector<double>()>& read) {
  std::optional<Error> failed;
  std::vector<double> own;
  try {
    own = read();
  } catch (const Error& error) {
    failed = error;
  } catch (const std::exception& error) {
    failed = Error(ErrorKind::kIo, first_line(error));
  }
  const auto reports = view.gather_numbers({failed ? 1 : 0, static_cast<int64_t>(own.size())});
  if (failed) throw *failed;
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const bool differs = reports[rank][1] != reports.front()[1];
    if (reports[rank][0] == 0 && !differs) continue;
    throw Error(ErrorKind::kIo,
                cat("rank ", rank,
                    differs ? " reads other files than rank 0" : " cannot read the checkpoint"),
                "the path must lead to the same files on the machines of all ranks");
  }
  const at::Tensor all = view.gather(at::tensor(own, at::TensorOptions(at::kDouble))).contiguous();
  const auto* values = all.const_data_ptr<double>();
  std::vector<std::vector<double>> rows;
  for (int64_t row = 0; row < all.size(0); ++row, values += own.size()) {
    rows.emplace_back(values, values + own.size());
  }
  return rows;
}

}  // namespace am::values
