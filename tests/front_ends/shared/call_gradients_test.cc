// The rows of the gradients of one call, of whichever front end. Site 1 is that of inputs, site 2 that of outputs.
#include "front_ends/shared/call_gradients.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/front_ends/shared/side.h"

namespace stepwatch::tests {
namespace {

using front_end::kNoSite;
using front_end::ModuleSites;
using Gradients = front_end::CallGradients<Side::Tensors>;

const Side::Tensors::Handle kNone{};

class Call {
 public:
  explicit Call(const ModuleSites& sites = {kNoSite, kNoSite, 1, 2, 1}) {
    context->recorder = &recorder;
    gradients = std::make_shared<Gradients>(context, sites, front_end::CallPosition{3, 1});
  }

  // The context holds calls with a gradient until the end of the step.
  ~Call() { context->FinishCalls(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // An input that so many nodes of the call take.
  void ExpectInput(uint16_t element, int parts) const {
    gradients->ExpectInput(element);
    for (int i = 0; i < parts; ++i) gradients->ExpectPartOfInput(element);
  }
  // Each returns the records that come of it.
  std::string OnPart(uint16_t element, const Side::Tensors::Handle& gradient) {
    gradients->OnPartOfInput(element, gradient);
    return recorder.Take();
  }
  std::string OnOutput(float gradient) {
    gradients->OnOutput(kNoElement, Side::Make(gradient));
    return recorder.Take();
  }
  std::string ReportUnwatched() {
    gradients->ReportUnwatched();
    return recorder.Take();
  }
  std::string Finish() {
    context->FinishCalls();
    return recorder.Take();
  }

  TextRecorder recorder;
  std::shared_ptr<Side::Context> context = std::make_shared<Side::Context>();
  std::shared_ptr<Gradients> gradients;
};

}  // namespace

TEST_CASE("the gradient of an input is the sum of its parts, when the last has come") {
  Call call;
  call.ExpectInput(0, 2);
  call.ExpectInput(1, 1);
  CHECK(call.OnOutput(7) == "2:3@1=7");
  CHECK(call.OnPart(0, Side::Make(2)) == "");
  CHECK(call.OnPart(1, Side::Make(5)) == "1:3_1@1=5");
  CHECK(call.OnPart(0, Side::Make(4)) == "1:3_0@1=6");
  CHECK(call.Finish() == "");
}

TEST_CASE("a part that is no tensor adds nothing, and without any other the row is one of nan") {
  Call call;
  call.ExpectInput(0, 2);
  call.ExpectInput(1, 2);
  CHECK(call.OnPart(0, kNone) == "");
  CHECK(call.OnPart(0, Side::Make(4)) == "1:3_0@1=4");
  CHECK(call.OnPart(1, kNone) == "");
  CHECK(call.OnPart(1, kNone) == "1:3_1@1=nan");
}

TEST_CASE("a walk of the graph for other gradients leaves that of an input as it is, and one for the same repeats it") {
  Call call;
  call.ExpectInput(0, 1);
  call.ExpectInput(1, 2);
  CHECK(call.OnPart(0, Side::Make(4)) == "1:3_0@1=4");
  CHECK(call.OnPart(0, kNone) == "");
  CHECK(call.OnPart(0, Side::Make(3)) == "1:3_0@1=3");
  CHECK(call.OnPart(1, Side::Make(1)) == "");
  CHECK(call.OnPart(1, Side::Make(1)) == "1:3_1@1=2");
  CHECK(call.OnPart(1, kNone) == "");
  CHECK(call.Finish() == "");
}

TEST_CASE("a call that no gradient has reached has no rows") {
  Call call;
  call.ExpectInput(kNoElement, 1);
  CHECK(call.Finish() == "");
}

TEST_CASE("an input that no node takes has its row once") {
  Call call;
  call.ExpectInput(0, 0);
  call.ExpectInput(1, 1);
  call.gradients->OnOutput(kNoElement, Side::Make(7));
  CHECK(call.ReportUnwatched() == "2:3@1=7 1:3_0@1=nan");  // LibTorch's side does not wait for the call
  CHECK(call.ReportUnwatched() == "");
  CHECK(call.OnPart(1, Side::Make(2)) == "1:3_1@1=2");
  CHECK(call.Finish() == "");
}

TEST_CASE("an input that is not used has zeros if another one has a gradient, and nan if none has") {
  static constexpr float kZero = 0;
  const bool another_has = GENERATE(false, true);
  Call call;
  call.ExpectInput(0, 1);
  call.ExpectInput(1, 0);
  call.gradients->LastInputHasZeros(DenseView(&kZero, DType::kFloat32, nullptr, 0));
  CHECK(call.OnOutput(7) == "2:3@1=7");
  CHECK(call.ReportUnwatched() == "");  // it is not clear yet
  if (another_has) CHECK(call.OnPart(0, Side::Make(2)) == "1:3_0@1=2");
  CHECK(call.Finish() == (another_has ? "1:3_1@1=0" : "1:3_0@1=nan 1:3_1@1=nan"));
}

TEST_CASE("gradients that come after the step, under another plan or in a step that is not collected have no rows") {
  const int what = GENERATE(0, 1, 2);
  Call call;
  call.ExpectInput(0, 2);
  CHECK(call.OnPart(0, Side::Make(2)) == "");
  if (what == 0) ++call.context->step;
  if (what == 1) ++call.context->generation;
  if (what == 2) call.recorder.set_collecting(false);
  CHECK(call.gradients->is_over());
  CHECK(call.OnPart(0, Side::Make(3)) == "");
  CHECK(call.OnOutput(7) == "");
  CHECK(call.ReportUnwatched() == "");
  CHECK(call.Finish() == "");
}

TEST_CASE("sites that the plan does not want have no rows") {
  Call call({kNoSite, kNoSite, kNoSite, 2, 1});
  call.ExpectInput(0, 1);
  call.ExpectInput(1, 1);
  CHECK(call.OnOutput(7) == "2:3@1=7");
  CHECK(call.OnPart(0, Side::Make(2)) == "");
  CHECK(call.Finish() == "");
}

TEST_CASE("the structure of a call has its gradients, those that do not come as well") {
  static constexpr const char* kScalar = "size=(), dtype=torch.float32";
  Call call;
  const auto structure = std::make_shared<front_end::StructureRecorder>();
  const int entry = structure->AddForward("0:", {"list[2]", {kScalar, kScalar}}, {"tensor", {kScalar}});
  call.gradients->Describe(structure, entry);
  call.ExpectInput(0, 2);
  call.ExpectInput(1, 1);
  (void)call.OnOutput(7);
  (void)call.OnPart(0, Side::Make(2));
  call.gradients->CompleteStructure();
  const ModuleStructure module = structure->Modules().at(0);
  CHECK(module.output_grad.elements == std::vector<std::string>{kScalar});
  CHECK(module.input_grad.config == "tuple[2]");
  CHECK(module.input_grad.elements == std::vector<std::string>{kScalar, kNoTensor});
}

}  // namespace stepwatch::tests
