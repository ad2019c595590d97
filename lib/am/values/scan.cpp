#include "am/values/scan.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "am/inspect/rows.h"
#include "am/stored/row_blocks.h"
#include "am/tensor/redistribute.h"

namespace am::values {

// A rank that is interrupted leaves the rest undone; then all end here.
void scan(Session& session, const Picked& picked, const ScanVisit& visit) {
  const at::NoGradGuard no_grad;
  values_of(session).visit_parts(
      *picked.parameter, picked.selection.box, [&](const ParameterView::Part& part) {
        if (!part.first_replica) return true;
        stored::for_each_row_block(part.box, kScanBlock, [&](const mesh::Box& block) {
          if (session.is_interrupted()) return;
          visit(tensor::view_box(part.values, part.box.offset, block).cpu(), block);
        });
        return !session.is_interrupted();
      });
  session.check_interrupt();
}

Json moments_json(const std::string& name, const Moments& moments) {
  const bool any = moments.finite() > 0;
  return {{"name", name},
          {"numel", moments.numel},
          {"min", any ? Json(moments.min) : Json(nullptr)},
          {"max", any ? Json(moments.max) : Json(nullptr)},
          {"mean", any ? Json(moments.mean) : Json(nullptr)},
          {"std", number_or_null(moments.std())},
          {"norm", any || moments.numel == 0 ? Json(moments.norm()) : Json(nullptr)},
          {"nan", moments.nan},
          {"inf", moments.inf}};
}

Moments moments_of(Session& session, const Picked& picked) {
  Moments own;
  scan(session, picked, [&](const at::Tensor& values, const mesh::Box&) { own.add(values); });
  const auto packed = own.pack();
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
