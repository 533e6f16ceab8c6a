// Nets of watched modules that tests train for some steps.
#pragma once

#include <stepwatch/torch.h>

#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/front_ends/torch/harness.h"

namespace stepwatch::tests {

namespace nn = stepwatch::nn;

using Sgd = Watched<torch::optim::SGD>;

inline torch::optim::SGDOptions Rate() {
  return torch::optim::SGDOptions(0.1);
}

inline double Norm(const torch::Tensor& tensor) {
  return tensor.detach().to(torch::kDouble).norm().item<double>();
}

// A net given as a function over modules that the caller registers.
struct NetImpl : nn::Module {
  template <class Holder>
  Holder Add(const std::string& name, Holder holder) {
    return register_module(name, holder);
  }
  std::function<torch::Tensor(torch::Tensor)> run;
  torch::Tensor forward(torch::Tensor x) { return run(std::move(x)); }
};
TORCH_MODULE(Net);

using BuildNet = std::function<void(NetImpl&)>;

struct WritesInputImpl : nn::Module {
  torch::Tensor forward(torch::Tensor x) { return x.mul_(2).add_(1); }
};
TORCH_MODULE(WritesInput);

struct UsesTwiceImpl : nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return torch::sin(x) * 50 + torch::cos(x * 3); }
};
TORCH_MODULE(UsesTwice);

struct KeepsInputImpl : nn::Module {
  torch::Tensor forward(const torch::Tensor& x) {
    seen = x.unsafeGetTensorImpl();
    strides = x.strides().vec();
    was_view = x.is_view();
    return x * 2;
  }
  const void* seen = nullptr;
  std::vector<int64_t> strides;
  bool was_view = false;
};
TORCH_MODULE(KeepsInput);

// A module writes into the output of the one before.
inline void UserInplace(NetImpl& net) {
  auto a = net.Add("a", nn::Linear(6, 9));
  auto write = net.Add("write", Watched<WritesInput>());
  auto b = net.Add("b", nn::Linear(9, 4));
  net.run = [=](torch::Tensor x) mutable { return b(write(a(x))); };
}

// One step of a net on a fresh harness; what was recorded is in the harness afterwards.
inline void RunSteps(Harness& harness, Net& net, const std::function<void(int)>& step, int steps = 1) {
  Sgd optimizer(net->parameters(), Rate());
  TorchMonitor monitor(harness.options);
  monitor.Attach(*net, optimizer);
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    step(i);
    optimizer.step();
  }
  CHECK(monitor.Close().ok());
  CHECK(harness.LedgersBalance());
}

}  // namespace stepwatch::tests
