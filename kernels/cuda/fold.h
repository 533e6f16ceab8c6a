// Combines two partial results. Only sums depend on the order, and only there the order is fixed.
#pragma once

#include "kernels/cuda/accumulate.h"
#include "kernels/cuda/launch.h"

namespace stepwatch::kernels::cuda {

STEPWATCH_DEVICE Partial NoElements() {
  return {0, 0, INT64_MAX, INT64_MIN, 0, 0, 0};
}

STEPWATCH_DEVICE Partial Join(const Partial& x, const Partial& y) {
  return {x.sum + y.sum,
          x.sum_of_squares + y.sum_of_squares,
          x.low < y.low ? x.low : y.low,
          x.high > y.high ? x.high : y.high,
          x.zeros + y.zeros,
          x.nans + y.nans,
          x.infs + y.infs};
}

template <class Key>
STEPWATCH_DEVICE ThreadTotals<Key> Join(const ThreadTotals<Key>& x, const ThreadTotals<Key>& y) {
  return {x.sum + y.sum, x.sum_of_squares + y.sum_of_squares, x.low < y.low ? x.low : y.low,
          x.high > y.high ? x.high : y.high, x.zeros + y.zeros};
}

// The value of an absent warp.
STEPWATCH_DEVICE void Clear(Partial* value) {
  *value = NoElements();
}
template <class Key>
STEPWATCH_DEVICE void Clear(ThreadTotals<Key>* value) {
  constexpr bool kWide = sizeof(Key) == 8;
  *value = {0, 0, static_cast<Key>(kWide ? INT64_MAX : INT32_MAX), static_cast<Key>(kWide ? INT64_MIN : INT32_MIN), 0};
}

struct NonFinite {
  uint32_t nans = 0;
  uint32_t infs = 0;
};

}  // namespace stepwatch::kernels::cuda
