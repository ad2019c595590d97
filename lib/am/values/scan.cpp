#include "am/values/scan.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "am/inspect/rows.h"
#include "am/stored/row_blocks.h"
#include "am/tensor/redistribute.h"
#include "am/tensor/side_stream.h"
#include "am/values/on_threads.h"

namespace am::values {

namespace {

// Calls `visit` with each block of rows of a part of a tensor. Skips the part if another rank
// visits a replica of the part. If this rank is interrupted, skips the remaining blocks and returns
// false.
bool scan_part(const Session& session, const ParameterView::Part& part, const ScanVisit& visit) {
  if (!part.first_replica) return true;
  const int64_t at_once = tensor::is_asynchronous(part.values.device()) ? kDeviceBlock : kScanBlock;
  stored::for_each_row_block(part.box, at_once, [&](const mesh::Box& block) {
    if (session.is_interrupted()) return;
    visit(tensor::view_box(part.values, part.box.offset, block), block);
  });
  session.saw_bytes(static_cast<int64_t>(part.values.nbytes()));
  return !session.is_interrupted();
}

// Returns the statistics of the elements that this rank reads. Each element is read on one rank
// only.
Moments own_moments(Session& session, const inspect::Picked& picked) {
  FoundInOrder<Moments> of_parts;
  values_of(session).visit_parts_at_once(
      *picked.parameter, picked.selection.box, [&](size_t number, const ParameterView::Part& part) {
        const at::NoGradGuard no_grad;  // set here, because a guard applies only to its own thread
        Moments found;
        const bool goes_on = scan_part(
            session, part, [&](const at::Tensor& values, const mesh::Box&) { found.add(values); });
        of_parts.add(number, found);
        return goes_on;
      });
  session.check_interrupt();
  Moments own;
  for (const auto& [number, found] : of_parts.all()) own.merge(found);
  return own;
}

}  // namespace

void scan(Session& session, const inspect::Picked& picked, const ScanVisit& visit) {
  scan_on_device(session, picked, [&](const at::Tensor& values, const mesh::Box& box) {
    if (values.is_cpu()) return visit(values, box);
    stored::for_each_row_block(box, kScanBlock, [&](const mesh::Box& block) {
      visit(tensor::view_box(values, box.offset, block).cpu(), block);
    });
  });
}

void scan_on_device(Session& session, const inspect::Picked& picked, const ScanVisit& visit) {
  const at::NoGradGuard no_grad;
  values_of(session).visit_parts(
      *picked.parameter, picked.selection.box,
      [&](const ParameterView::Part& part) { return scan_part(session, part, visit); });
  session.check_interrupt();
}

Json moments_json(const std::string& name, const Moments& moments) {
  const bool any = moments.finite() > 0;
  return {{"name", name},
          {"numel", moments.numel},
          {"min", any ? Json(moments.min) : Json(nullptr)},
          {"max", any ? Json(moments.max) : Json(nullptr)},
          {"mean", any ? Json(moments.mean) : Json(nullptr)},
          {"std", inspect::number_or_null(moments.std())},
          {"norm", any || moments.numel == 0 ? Json(moments.norm()) : Json(nullptr)},
          {"nan", moments.nan},
          {"inf", moments.inf}};
}

Moments moments_of(Session& session, const inspect::Picked& picked) {
  const auto packed = own_moments(session, picked).pack();
  at::Tensor row = at::empty({Moments::kWords}, at::TensorOptions(at::kDouble));
  std::copy(packed.begin(), packed.end(), row.data_ptr<double>());
  const at::Tensor all = values_of(session).gather(row).contiguous();
  Moments total;
  for (int64_t rank = 0; rank < all.size(0); ++rank) {
    total.merge(Moments::unpack(all.const_data_ptr<double>() + rank * Moments::kWords));
  }
  return total;
}

}  // namespace am::values
