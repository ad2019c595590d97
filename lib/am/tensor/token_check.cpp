#include "am/tensor/token_check.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::tensor {

void check_tokens(const at::Tensor& tokens, const char* what, int64_t vocabulary,
                  std::optional<int64_t> ignored) {
  if (tokens.is_meta() || tokens.numel() == 0) return;
  if (tokens.is_cuda()) {
    at::Tensor legal = tokens.ge(0).logical_and(tokens.lt(vocabulary));
    if (ignored) legal = legal.logical_or(tokens.eq(*ignored));
    at::_assert_async(legal.all(), cat("a ", what, " is outside the vocabulary of ", vocabulary));
    return;
  }
  const at::Tensor dense = tokens.cpu().contiguous();
  const auto* first = dense.const_data_ptr<int64_t>();
  const auto* last = first + dense.numel();
  const auto* bad = std::find_if(first, last, [&](int64_t token) {
    return token != ignored && (token < 0 || token >= vocabulary);
  });
  if (bad == last) return;
  throw Error(ErrorKind::kUsage, cat(what, " ", *bad, " is outside the vocabulary of ", vocabulary),
              ignored ? cat("legal: 0 to ", vocabulary - 1, ", or ", *ignored,
                            " where the loss skips a position")
                      : cat("legal: 0 to ", vocabulary - 1));
}

}  // namespace am::tensor
