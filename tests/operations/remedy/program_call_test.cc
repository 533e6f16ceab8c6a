#include "operations/remedy/program_call.h"

#include "tests/catch.h"

namespace stepwatch::operations::remedy {
namespace {

Program Drain() {
  return {"drain", {"/usr/bin/scontrol", "update", "nodename={node}", "reason={kind} of {run} {odd}"}};
}

Trigger At(std::string host) {
  Trigger trigger;
  trigger.host = std::move(host);
  trigger.kind = "gpu_fault";
  trigger.run = "pretrain-7";
  return trigger;
}

TEST_CASE("placeholders are replaced inside their arguments, and other braces stay") {
  const auto arguments = ArgumentsFor(Drain(), At("gpu-03.example"));
  REQUIRE(arguments.ok());
  CHECK(arguments.value() == std::vector<std::string>{"/usr/bin/scontrol", "update", "nodename=gpu-03.example",
                                                      "reason=gpu_fault of pretrain-7 {odd}"});
}

TEST_CASE("a value that could be read as more than a name is refused") {
  for (const char* host :
       {"a b", "a;reboot", "$(reboot)", "`x`", "a\nb", "-rf", "../x", "a|b", "a'b", "{run}", "\xff"}) {
    INFO(host);
    const auto arguments = ArgumentsFor(Drain(), At(host));
    REQUIRE_FALSE(arguments.ok());
    CHECK(arguments.status().message() == "{node} of the trigger has characters that no argument may have");
  }
}

TEST_CASE("an unknown value is refused") {
  CHECK(ArgumentsFor(Drain(), At("")).status().message() == "{node} of the trigger is unknown");
  CHECK_FALSE(ArgumentsFor({"p", {"/bin/p", "{rank}"}}, At("h")).ok());
}

}  // namespace
}  // namespace stepwatch::operations::remedy
