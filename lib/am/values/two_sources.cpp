#include "am/values/two_sources.h"

#include <ATen/ATen.h>

#include "am/base/error.h"
#include "am/base/home.h"
#include "am/base/map_guard.h"
#include "am/base/text.h"
#include "am/checkpoint/block_buffer.h"
#include "am/checkpoint/read_tensor.h"
#include "am/frameworks/open_weights.h"
#include "am/inspect/target.h"
#include "am/stored/row_blocks.h"
#include "am/tensor/dtype.h"
#include "am/values/on_threads.h"

namespace am::values {
namespace {

// Number of elements of each tensor that are compared at a time; small enough for the cache of a
// core.
constexpr int64_t kPairBlock = int64_t{256} << 10;

}  // namespace

std::unique_ptr<stored::TensorSource> open_weights_at(const std::string& path) {
  const inspect::Target target = inspect::find_target(expand_home(path));
  if (target.kind != inspect::TargetKind::kWeights) {
    throw Error(ErrorKind::kUsage, cat(target.path.string(), " is a plan, not a checkpoint"));
  }
  return frameworks::open_tensor_source(target.path, stored::OnDamage::kReport);
}

void for_each_pair(Session& session, const stored::TensorSource& left,
                   const stored::StoredTensor& a, const stored::TensorSource& right,
                   const stored::StoredTensor& b, const VisitPair& visit) {
  struct Buffers {
    checkpoint::BlockBuffer left, right;
  };
  std::vector<Buffers> buffers(most_threads());
  std::vector<mesh::Box> blocks;
  stored::for_each_row_block(mesh::Box::whole(a.shape), kPairBlock,
                             [&](const mesh::Box& block) { blocks.push_back(block); });
  on_threads(blocks.size(), [&](size_t thread, size_t number) {
    const at::NoGradGuard no_grad;  // set here, because it applies only to this thread
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
  session.check_interrupt();
}

}  // namespace am::values
