// Watched<Holder>: a module holder like Holder, whose forward the monitor can observe.
//
//   using Linear = stepwatch::Watched<torch::nn::Linear>;   // a stock module
//   using Block = stepwatch::Watched<PlainBlock>;           // your own, made by TORCH_MODULE(PlainBlock)
//
// Names, parameters, save and load, clone, Sequential, AnyModule and ModuleList work as before, with these differences:
//  - default arguments of forward work in `lstm(x)`, not in `lstm->forward(x)`: AnyModule requires one exact signature;
//  - `module->as<torch::nn::LinearImpl>()` works, `sequential->at<torch::nn::LinearImpl>(0)` throws: the type differs;
//  - calls that LibTorch makes inside its own modules (the layers of a TransformerEncoder) are not observed;
//  - Module::name() prints the long name of the watching layer. The monitor shows the module's own.
// forward must be one function: no overloads, no template. The forward of Sequential is a template, so a Sequential
// cannot be Watched; its parts can, and so can a module of yours that holds one.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any_value.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>
#include <ostream>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "stepwatch/torch/forward_call.h"
#include "stepwatch/torch/tap_point.h"

namespace stepwatch {
namespace detail {

template <class T>
inline constexpr bool kAlwaysFalse = false;

template <class M, class = void>
struct HasOneForward : std::false_type {};
template <class M>
struct HasOneForward<M, std::void_t<decltype(&M::forward)>> : std::true_type {};

template <class F>
struct Signature;
template <class C, class R, class... A>
struct Signature<R (C::*)(A...)> {
  using Return = R;
  using Arguments = std::tuple<A...>;
};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> : Signature<R (C::*)(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) noexcept> : Signature<R (C::*)(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const noexcept> : Signature<R (C::*)(A...)> {};

struct FromPlainTag {};

template <class M, class R, class Arguments>
class WatchedImpl;

template <class M, class R, class... A>
class WatchedImpl<M, R, std::tuple<A...>> : public M, public TapPoint {
 public:
  using M::M;
  WatchedImpl() = default;
  WatchedImpl(FromPlainTag, const M& plain) : M(plain) {}

  // Returns a watched module that shares its tensors with a plain one.
  static std::shared_ptr<WatchedImpl> FromPlain(const M& plain) {
    return std::make_shared<WatchedImpl>(FromPlainTag{}, plain);
  }

  R forward(A... arguments) { return Call(std::forward<A>(arguments)...); }

  // Calls forward with the default arguments that M declares.
  template <class... B>
  R Call(B&&... arguments) {
    ModuleTap* tap = this->tap();
    if (tap == nullptr) return M::forward(std::forward<B>(arguments)...);
    return Observed(*tap, std::index_sequence_for<B...>(), std::forward<B>(arguments)...);
  }

  // M's clone makes a plain M, but callers expect the exact type of this module.
  std::shared_ptr<torch::nn::Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override {
    std::shared_ptr<torch::nn::Module> plain = M::clone(device);
    if constexpr (std::is_copy_constructible_v<M>) {
      if (auto* typed = dynamic_cast<M*>(plain.get())) return FromPlain(*typed);
    }
    return plain;
  }

  // A plain copy shares all tensors and prints the expected name.
  void pretty_print(std::ostream& stream) const override {
    if constexpr (std::is_copy_constructible_v<M>) {
      const M plain(static_cast<const M&>(*this));
      static_cast<const torch::nn::Module&>(plain).pretty_print(stream);
    } else {
      M::pretty_print(stream);
    }
  }

  const std::type_info& watched_type() const noexcept override { return typeid(M); }

  // For AnyModule, and so for Sequential: for a module without default arguments it writes out the type's name at every
  // call. The name of this type is so long that it would be the largest cost of an idle watched module.
  bool _forward_has_default_args() override { return true; }
  unsigned int _forward_num_required_args() override {
    return M::_forward_has_default_args() ? M::_forward_num_required_args() : static_cast<unsigned int>(sizeof...(A));
  }
  std::vector<torch::nn::AnyValue> _forward_populate_default_args(std::vector<torch::nn::AnyValue>&& given) override {
    if (M::_forward_has_default_args()) return M::_forward_populate_default_args(std::move(given));
    return std::move(given);
  }

 private:
  template <size_t... I, class... B>
#if defined(__GNUC__)
  [[gnu::noinline]]
#endif
  R Observed(ModuleTap& tap, std::index_sequence<I...>, B&&... arguments) {
    ForwardCall call(tap, this->is_training());
    if (!call.wanted()) return M::forward(std::forward<B>(arguments)...);
    using Declared = std::tuple<A...>;
    std::tuple<ArgumentSlot<std::tuple_element_t<I, Declared>, B&&>...> slots(std::forward<B>(arguments)...);
    InputList inputs;
    (std::get<I>(slots).Collect(inputs), ...);
    call.Before(inputs);
    if constexpr (std::is_void_v<R>) {
      M::forward(std::get<I>(slots).Pass()...);
      call.After(OutputList());
    } else {
      R result = M::forward(std::get<I>(slots).Pass()...);
      call.After(OutputsOf(result));
      return result;
    }
  }
};

template <class M, bool = HasOneForward<M>::value>
struct WatchedImplOf {
  static_assert(kAlwaysFalse<M>,
                "stepwatch::Watched needs a module with exactly one forward, neither overloaded nor a template; "
                "watch the modules inside it, or wrap it in a module of your own");
};
template <class M>
struct WatchedImplOf<M, true> {
  using Of = Signature<decltype(&M::forward)>;
  using Type = WatchedImpl<M, typename Of::Return, typename Of::Arguments>;
};

template <class T>
inline constexpr bool kIsHolder = std::is_base_of_v<torch::detail::ModuleHolderIndicator, T>;

}  // namespace detail

// One template name for modules (here) and optimizers (watched_optimizer.h).
template <class T, class = void>
class Watched {
  static_assert(detail::kAlwaysFalse<T>,
                "stepwatch::Watched needs a module holder (torch::nn::Linear, or yours made by TORCH_MODULE) or an "
                "optimizer of torch::optim");
};

template <class Holder>
class Watched<Holder, std::enable_if_t<detail::kIsHolder<Holder>>>
    : public torch::nn::ModuleHolder<typename detail::WatchedImplOf<typename Holder::ContainedType>::Type> {
  static_assert(!std::is_base_of_v<TapPoint, typename Holder::ContainedType>, "this holder is watched already");

 public:
  using Impl = typename detail::WatchedImplOf<typename Holder::ContainedType>::Type;
  using torch::nn::ModuleHolder<Impl>::ModuleHolder;

  template <class... B>
  decltype(auto) operator()(B&&... arguments) {
    return this->impl_->Call(std::forward<B>(arguments)...);
  }

  // Converts to the plain holder, for functions with a parameter of that type.
  operator Holder() const {  // NOLINT(google-explicit-constructor): stands in for the plain holder
    return Holder(std::shared_ptr<typename Holder::ContainedType>(this->impl_));
  }
};

}  // namespace stepwatch
