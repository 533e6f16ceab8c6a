// Which backward passes have a row of the un-reduced gradient. The gradient of pass n is n.
#include "front_ends/shared/parameter_rows.h"

#include <cstdint>
#include <string>

#include "tests/front_ends/shared/side.h"

namespace stepwatch::tests {
namespace {

class Parameter {
 public:
  explicit Parameter(int announced, bool each = false) {
    context_.grad_acc_steps = announced;
    rows_.Want(&recorder_, SiteKind::kGradUnreduced, 0, each);
  }

  // Returns the records of so many passes.
  std::string Pass(int count = 1) {
    for (int i = 0; i < count; ++i) {
      const uint32_t pass = rows_.unreduced.CountPass(context_);
      (void)rows_.unreduced.Observe(context_, recorder_, Side::Make(static_cast<float>(pass)), pass);
    }
    return recorder_.Take();
  }
  std::string BeginUpdate() {
    rows_.BeginUpdate(context_.step);
    (void)rows_.BeginGradient(recorder_, context_.step);
    return recorder_.Take();
  }
  void EndUpdate() { rows_.EndUpdate(context_.step); }
  std::string Update() {
    std::string text = BeginUpdate();
    EndUpdate();
    return text;
  }
  void AbandonUpdate() { rows_.AbandonUpdate(context_.step); }
  std::string EndStep() {
    (void)rows_.unreduced.EndStep(recorder_, context_.step);
    ++context_.step;
    return recorder_.Take();
  }
  std::string WantNothing() {
    rows_.WantNothing(&recorder_);
    return recorder_.Take();
  }

 private:
  TextRecorder recorder_;
  Side::Context context_;
  front_end::ParameterRows rows_;
};

}  // namespace

TEST_CASE("a step of as many passes as were announced has the row of the last one") {
  Parameter parameter(/*announced=*/2);
  for (int step = 0; step < 3; ++step) {
    CHECK(parameter.Pass() == "");
    CHECK(parameter.Pass() == "~0:0=1 0:1=2");
    CHECK(parameter.Update() == "");
    CHECK(parameter.EndStep() == "");
  }
}

TEST_CASE("each multiple of the announced passes has a row at once") {
  Parameter parameter(/*announced=*/2);
  CHECK(parameter.Pass(4) == "~0:0=1 0:1=2 ~0:1=3 0:1=4");
  CHECK(parameter.WantNothing() == "");
}

TEST_CASE("the last pass before the update counts, of fewer passes than were announced and of more") {
  Parameter parameter(/*announced=*/3);
  CHECK(parameter.Pass(2) == "~0:0=1");
  CHECK(parameter.Update() == "0:1=2");
  CHECK(parameter.EndStep() == "");
  CHECK(parameter.Pass(4) == "~0:0=1 ~0:1=2 0:2=3");
  CHECK(parameter.Update() == "0:2=4");
  CHECK(parameter.EndStep() == "");
}

TEST_CASE("every pass has a row of its own number where each is wanted") {
  Parameter parameter(/*announced=*/2, /*each=*/true);
  CHECK(parameter.Pass(3) == "0:0=1 0:1=2 0:2=3");
  CHECK(parameter.Update() == "");
  CHECK(parameter.Pass() == "0:0@1=4");
}

TEST_CASE("passes of a step without an update have the row of the last one") {
  Parameter parameter(/*announced=*/3);
  CHECK(parameter.Pass(2) == "~0:0=1");
  CHECK(parameter.EndStep() == "0:1=2");
}

TEST_CASE("passes after the last update of a step have no row, and those before a further one have its number") {
  Parameter parameter(/*announced=*/1);
  CHECK(parameter.Pass() == "0:0=1");
  CHECK(parameter.Update() == "");
  CHECK(parameter.Pass(2) == "~0:0@1=2");
  CHECK(parameter.Update() == "0:0@1=3");
  CHECK(parameter.Pass() == "");
  CHECK(parameter.EndStep() == "~0:0@2=4");
}

TEST_CASE("passes within an update are those of its closure") {
  Parameter parameter(/*announced=*/1);
  CHECK(parameter.BeginUpdate() == "");
  CHECK(parameter.Pass(2) == "0:0=1 0:0=2");
  parameter.EndUpdate();
  CHECK(parameter.BeginUpdate() == "");
  CHECK(parameter.Pass() == "0:0@1=3");
}

TEST_CASE("an update that fails leaves its number to the next one") {
  Parameter parameter(/*announced=*/1);
  CHECK(parameter.Pass() == "0:0=1");
  CHECK(parameter.BeginUpdate() == "");
  parameter.AbandonUpdate();
  CHECK(parameter.Pass() == "0:0=2");
  CHECK(parameter.Update() == "");
  CHECK(parameter.Pass() == "");
  CHECK(parameter.EndStep() == "~0:0@1=3");
}

TEST_CASE("what is kept is discarded when nothing is wanted any more") {
  Parameter parameter(/*announced=*/2);
  CHECK(parameter.Pass() == "");
  CHECK(parameter.WantNothing() == "~0:0=1");
}

TEST_CASE("the last of the announced passes is one of each series since the update") {
  front_end::UnreducedRows rows;
  rows.Want(nullptr, 0, false);
  Side::Context context;
  for (int i = 0; i < 3; ++i) (void)rows.CountPass(context);
  CHECK(rows.EndsSeries(0, 2, 2));
  CHECK(!rows.EndsSeries(0, 3, 2));
  rows.BeginUpdate(0, 0);
  rows.EndUpdate(0);
  CHECK(!rows.EndsSeries(0, 3, 2));  // seen again
  CHECK(!rows.EndsSeries(0, 4, 2));
  CHECK(rows.EndsSeries(0, 5, 2));
}

TEST_CASE("updates of a step are numbered, and one that repeats another is marked") {
  front_end::ParameterRows rows;
  const auto number_in = [&](uint32_t step) { return rows.At(SiteKind::kParamOrigin, step).call; };
  const auto begin = [&](uint32_t step) {
    rows.BeginUpdate(step);
    return number_in(step);
  };
  CHECK(number_in(0) == 0);
  CHECK(begin(0) == 0);
  CHECK(begin(0) == 1);
  rows.AbandonUpdate(0);
  CHECK(begin(0) == (1 | kRepeatedUpdate));
  CHECK(begin(0) == 2);
  CHECK(number_in(1) == 0);
  rows.AbandonUpdate(1);
  CHECK(begin(1) == 0);
}

}  // namespace stepwatch::tests
