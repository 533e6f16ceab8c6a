// One call of the forward of a watched module, as its template sees it: the tensors that go in and come out, and the
// work of the monitor before and after. Code that needs no template is behind ForwardCall.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "stepwatch/part_scope.h"

namespace stepwatch {

class ModuleTap;

namespace detail {

using InputList = c10::SmallVector<const at::Tensor*, 4>;

struct OutputList {
  c10::SmallVector<const at::Tensor*, 4> tensors;  // null: an element that is not a tensor
  bool is_tuple = false;
};

// Finds tensors in tuples, pairs, vectors, arrays and optionals, to any depth. Other types count as without tensors.
template <class T>
struct Tensors {
  static constexpr bool kAny = false;
  template <class F>
  static void Each(const T&, const F& f) {
    f(nullptr);
  }
};
template <>
struct Tensors<at::Tensor> {
  static constexpr bool kAny = true;
  template <class U, class F>
  static void Each(U& tensor, const F& f) {
    f(&tensor);
  }
};
template <class T>
struct Tensors<std::optional<T>> {
  static constexpr bool kAny = Tensors<T>::kAny;
  template <class U, class F>
  static void Each(U& value, const F& f) {
    if (value.has_value()) {
      Tensors<T>::Each(*value, f);
    } else {
      f(nullptr);
    }
  }
};
template <class... T>
struct Tensors<std::tuple<T...>> {
  static constexpr bool kAny = (Tensors<T>::kAny || ...);
  template <class U, class F>
  static void Each(U& value, const F& f) {
    std::apply([&f](auto&... element) { (Tensors<std::decay_t<decltype(element)>>::Each(element, f), ...); }, value);
  }
};
template <class A, class B>
struct Tensors<std::pair<A, B>> {
  static constexpr bool kAny = Tensors<A>::kAny || Tensors<B>::kAny;
  template <class U, class F>
  static void Each(U& value, const F& f) {
    Tensors<A>::Each(value.first, f);
    Tensors<B>::Each(value.second, f);
  }
};
template <class Range, class T>
struct TensorRange {
  static constexpr bool kAny = Tensors<T>::kAny;
  template <class U, class F>
  static void Each(U& value, const F& f) {
    if constexpr (kAny) {
      for (auto& element : value) Tensors<T>::Each(element, f);
    } else {
      f(nullptr);
    }
  }
};
template <class T, class Allocator>
struct Tensors<std::vector<T, Allocator>> : TensorRange<std::vector<T, Allocator>, T> {};
template <class T, size_t N>
struct Tensors<std::array<T, N>> : TensorRange<std::array<T, N>, T> {};
template <class T>
struct Tensors<c10::ArrayRef<T>> : TensorRange<c10::ArrayRef<T>, T> {};

template <class T>
struct IsArrayRef : std::false_type {};
template <class T>
struct IsArrayRef<c10::ArrayRef<T>> : std::true_type {};

// An argument of forward, declared as A and passed as B. An argument with tensors is converted to A and kept, so that
// its tensors can be read before the call; a reference through which the module writes is passed on unchanged.
template <class A, class B>
class ArgumentSlot {
  using Plain = std::decay_t<A>;
  static constexpr bool kHasTensors = Tensors<Plain>::kAny;
  static constexpr bool kWrittenThrough = std::is_lvalue_reference_v<A> && !std::is_const_v<std::remove_reference_t<A>>;
  static constexpr bool kOwned = kHasTensors && !kWrittenThrough && !IsArrayRef<Plain>::value;
  std::conditional_t<kOwned, Plain, B> value_;

 public:
  ArgumentSlot(B given) : value_(static_cast<B>(given)) {}  // NOLINT(google-explicit-constructor): filled by std::tuple

  void Collect(InputList& inputs) {
    if constexpr (kHasTensors && std::is_same_v<std::decay_t<decltype(value_)>, Plain>) {
      Tensors<Plain>::Each(value_, [&inputs](const at::Tensor* tensor) {
        if (tensor != nullptr && tensor->defined()) inputs.push_back(tensor);
      });
    }
  }

  decltype(auto) Pass() {
    if constexpr (kOwned) {
      return static_cast<A&&>(value_);
    } else {
      return static_cast<B&&>(value_);
    }
  }
};

template <class T>
struct IsTupleLike : std::false_type {};
template <class... T>
struct IsTupleLike<std::tuple<T...>> : std::true_type {};
template <class A, class B>
struct IsTupleLike<std::pair<A, B>> : std::true_type {};
template <class T, class Allocator>
struct IsTupleLike<std::vector<T, Allocator>> : std::true_type {};
template <class T, size_t N>
struct IsTupleLike<std::array<T, N>> : std::true_type {};

template <class R>
OutputList OutputsOf(const R& result) {
  OutputList outputs;
  if constexpr (Tensors<R>::kAny) {
    outputs.is_tuple = IsTupleLike<R>::value;
    Tensors<R>::Each(result, [&outputs](const at::Tensor* tensor) {
      outputs.tensors.push_back(tensor != nullptr && tensor->defined() ? tensor : nullptr);
    });
  }
  return outputs;
}

// Never throws: after any fault the module sees the same values as without the monitor.
class ForwardCall {
 public:
  ForwardCall(ModuleTap& tap, bool training) noexcept;
  ~ForwardCall();
  ForwardCall(const ForwardCall&) = delete;
  ForwardCall& operator=(const ForwardCall&) = delete;

  bool wanted() const noexcept { return frame_ != nullptr; }
  // Measures the inputs and leaves them unchanged.
  void Before(const InputList& inputs) noexcept;
  void After(const OutputList& outputs) noexcept;

 private:
  struct Frame;

  void Watch(ModuleTap& tap, Recorder* recorder) noexcept;

  std::unique_ptr<Frame> frame_;
  std::optional<PartScope> time_;  // of a root
};

}  // namespace detail
}  // namespace stepwatch
