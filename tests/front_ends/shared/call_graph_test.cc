// The gradients that hooks in the graph of one call find, of whichever front end. Every node passes its gradient on
// times a factor. Site 1 is that of inputs, site 2 that of outputs; the input or output is the number behind "_".
#include "front_ends/shared/call_graph.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/front_ends/shared/side.h"

namespace stepwatch::tests {
namespace {

using front_end::kNoSite;
using front_end::ModuleSites;
using Tensor = Side::Tensor;

struct NumberedOutput {
  std::optional<Tensor> held;
  uint16_t element;

  bool is_tensor() const { return held.has_value(); }
  const Tensor& tensor() const { return *held; }
};

class WatchedCall {
 public:
  explicit WatchedCall(const std::vector<Tensor>& inputs) {
    context_->recorder = &recorder_;
    auto gradients = std::make_shared<front_end::CallGradients<Side::Tensors>>(context_, kSites, CallPosition{});
    graph_.emplace(Side::Graph(), std::move(gradients), kSites, /*all=*/false);
    for (size_t i = 0; i < inputs.size(); ++i) {
      graph_->gradients().ExpectInput(static_cast<uint16_t>(i));
      (void)graph_->AddInput(inputs[i], static_cast<uint16_t>(i));
    }
    graph_->BeginForward();
  }
  void Finish(const std::vector<std::optional<Tensor>>& outputs) {
    std::vector<NumberedOutput> numbered;
    for (const auto& each : outputs) numbered.push_back({each, static_cast<uint16_t>(numbered.size())});
    graph_->Finish(numbered);
  }
  // The rows of the step, sorted.
  std::string Rows() {
    context_->FinishCalls();
    std::istringstream text(recorder_.Take());
    std::vector<std::string> rows;
    for (std::string row; text >> row;) rows.push_back(row);
    std::sort(rows.begin(), rows.end());
    std::string joined;
    for (const std::string& row : rows) joined += (joined.empty() ? "" : " ") + row;
    return joined;
  }

 private:
  using CallPosition = front_end::CallPosition;
  static constexpr ModuleSites kSites{kNoSite, kNoSite, 1, 2, 1};

  TextRecorder recorder_;
  std::shared_ptr<Side::Context> context_ = std::make_shared<Side::Context>();
  std::optional<front_end::CallGraph<Side::Graph>> graph_;
};

}  // namespace

TEST_CASE("an input has the gradient through the call alone, the sum over all its uses there") {
  const Tensor h = Side::Times(Side::Leaf(), 1);
  WatchedCall call({h});
  const Tensor y = Side::Plus(Side::Times(h, 3), Side::Times(h, 4));
  call.Finish({y});
  Side::Backward(Side::Plus(y, Side::Times(h, 100)));
  CHECK(call.Rows() == "1:0_0=7 2:0_0=1");
}

TEST_CASE("a leaf that is passed to the call has its gradient") {
  const Tensor leaf = Side::Leaf();
  WatchedCall call({leaf});
  const Tensor y = Side::Times(leaf, 3);
  call.Finish({y});
  Side::Backward(y);
  CHECK(call.Rows() == "1:0_0=3 2:0_0=1");
}

TEST_CASE("a node from before the call is no user of its inputs") {
  const Tensor h = Side::Times(Side::Leaf(), 1);
  const Tensor g = Side::Times(h, 2);
  WatchedCall call({h, g});
  const Tensor y = Side::Times(g, 5);
  call.Finish({y});
  Side::Backward(y);
  CHECK(call.Rows() == "1:0_0=nan 1:0_1=5 2:0_0=1");
}

TEST_CASE("a tensor that is passed twice has its whole gradient at the first") {
  const Tensor h = Side::Times(Side::Leaf(), 1);
  WatchedCall call({h, h});
  const Tensor y = Side::Plus(h, Side::Times(h, 2));
  call.Finish({y});
  Side::Backward(y);
  CHECK(call.Rows() == "1:0_0=3 1:0_1=nan 2:0_0=1");
}

TEST_CASE("an input that is returned has the gradient of the tensor") {
  const Tensor h = Side::Times(Side::Leaf(), 1);
  WatchedCall call({h});
  call.Finish({h});
  Side::Backward(Side::Plus(Side::Times(h, 2), Side::Times(h, 3)));
  CHECK(call.Rows() == "1:0_0=5 2:0_0=5");
}

TEST_CASE("an input of which the backward pass reaches one use has the gradient of that use") {
  const Tensor h = Side::Times(Side::Leaf(), 1);
  WatchedCall call({h});
  const Tensor y = Side::Times(h, 3), z = Side::Times(h, 4);
  call.Finish({y, z});
  Side::Backward(y);
  CHECK(call.Rows() == "1:0_0=3 2:0_0=1 2:0_1=nan");
}

TEST_CASE("an output without a gradient has nan beside one that has one") {
  const Tensor h = Side::Times(Side::Leaf(), 1);
  WatchedCall call({h});
  const Tensor y = Side::Times(h, 3);
  call.Finish({std::nullopt, y, Side::Leaf()});
  Side::Backward(y);
  CHECK(call.Rows() == "1:0_0=3 2:0_0=nan 2:0_1=1 2:0_2=nan");
}

TEST_CASE("an output that the call uses itself has the gradient from outside") {
  const bool is_used_outside = GENERATE(false, true);
  const Tensor h = Side::Times(Side::Leaf(), 1);
  WatchedCall call({h});
  const Tensor first = Side::Times(h, 2);
  const Tensor second = Side::Times(first, 10);
  const Tensor third = Side::Plus(first, second);
  call.Finish({first, second, third});
  if (is_used_outside) {
    Side::Backward(Side::Plus(third, Side::Plus(Side::Times(first, 3), Side::Times(second, 5))));
    CHECK(call.Rows() == "1:0_0=128 2:0_0=3 2:0_1=5 2:0_2=1");
  } else {
    Side::Backward(third);
    CHECK(call.Rows() == "1:0_0=22 2:0_0=nan 2:0_1=nan 2:0_2=1");
  }
}

TEST_CASE("a view that the call writes has the gradient of its values from before, beside its base as another input") {
  const Tensor base = Side::Times(Side::Leaf(), 1);
  const Tensor view = Side::ViewOf(base);
  WatchedCall call({view, base});
  const Tensor before = Side::Times(view, 7);
  Side::WriteTimes(view, 2);
  const Tensor y = Side::Plus(view, before);
  call.Finish({y});
  Side::Backward(y);
  CHECK(call.Rows() == "1:0_0=9 1:0_1=2 2:0_0=1");
}

}  // namespace stepwatch::tests
