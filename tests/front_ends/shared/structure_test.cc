// Parts shared by front ends: micro-batches, and the structure of a model with its text.
#include "front_ends/shared/structure.h"

#include "front_ends/shared/micro_batches.h"
#include "src/output/run_files.h"
#include "tests/catch.h"

namespace stepwatch::front_end {

TEST_CASE("without marks a module's calls are its micro-batches, and further calls are repeats in the last") {
  CallCounter calls;
  CHECK(calls.Next(/*step=*/0, /*marks=*/0, /*grad_acc_steps=*/2) == CallPosition{0, 0});
  CHECK(calls.Next(0, 0, 2) == CallPosition{1, 0});
  CHECK(calls.Next(0, 0, 2) == CallPosition{1, 1});
  CHECK(calls.Next(0, 0, 2) == CallPosition{1, 2});
  CHECK(calls.Next(1, 0, 2) == CallPosition{0, 0});
}

TEST_CASE("without accumulation the second call of a module is a repeat") {
  CallCounter calls;
  CHECK(calls.Next(0, 0, 1) == CallPosition{0, 0});
  CHECK(calls.Next(0, 0, 1) == CallPosition{0, 1});
  CHECK(calls.Next(0, 0, 0) == CallPosition{0, 2});
}

TEST_CASE("marks decide the micro-batch whatever grad_acc_steps says") {
  CallCounter calls;
  CHECK(calls.Next(0, 1, 1) == CallPosition{0, 0});
  CHECK(calls.Next(0, 1, 1) == CallPosition{0, 1});
  CHECK(calls.Next(0, 2, 1) == CallPosition{1, 0});
  CHECK(calls.Next(0, 5, 1) == CallPosition{4, 0});
  CHECK(calls.Next(1, 1, 1) == CallPosition{0, 0});
}

TEST_CASE("a call before the first mark of a step belongs to the first micro-batch") {
  CallCounter calls;
  CHECK(calls.Next(3, 0, 1) == CallPosition{0, 0});
  CHECK(calls.Next(3, 1, 1) == CallPosition{0, 1});
}

TEST_CASE("a step counter forgets at the next step") {
  StepCounter counter;
  CHECK(counter.Count(0) == 0);
  CHECK(counter.Add(0) == 1);
  CHECK(counter.Add(0) == 2);
  CHECK(counter.Count(0) == 2);
  CHECK(counter.Count(1) == 0);
  CHECK(counter.Add(1) == 1);
}

TEST_CASE("sizes are written as Python writes tuples") {
  const int64_t sizes[] = {5, 4};
  CHECK(TupleText(sizes, 0) == "()");
  CHECK(TupleText(sizes, 1) == "(5,)");
  CHECK(TupleText(sizes, 2) == "(5, 4)");
}

TEST_CASE("the structure lists modules in the order of completion, and gradients that never came as none") {
  StructureRecorder book;
  const std::string in = "size=(5, 4), dtype=torch.float32";
  const std::string out = "size=(5, 3), dtype=torch.float32";
  const int fc = book.AddForward("0:fc", {"list[1]", {in}}, {"tensor", {out}});
  const int root = book.AddForward("0:", {"list[2]", {in, in}}, {"tuple[2]", {out, kNoTensor}});
  CHECK(book.AddForward("0:fc", {"list[1]", {in}}, {"tensor", {out}}) == -1);
  book.AddGradient(fc, /*is_input=*/false, 0, out);
  book.AddGradient(root, /*is_input=*/true, 1, in);
  CHECK(output::StructureText(book.Modules()) == R"({
  "0:fc": {
    "input": {
      "config": "list[1]",
      "0": "size=(5, 4), dtype=torch.float32"
    },
    "output": {
      "config": "tensor",
      "tensor": "size=(5, 3), dtype=torch.float32"
    },
    "input_grad": {},
    "output_grad": {
      "config": "tuple[1]",
      "0": "size=(5, 3), dtype=torch.float32"
    }
  },
  "0:": {
    "input": {
      "config": "list[2]",
      "0": "size=(5, 4), dtype=torch.float32",
      "1": "size=(5, 4), dtype=torch.float32"
    },
    "output": {
      "config": "tuple[2]",
      "0": "size=(5, 3), dtype=torch.float32",
      "1": "<class 'NoneType'>"
    },
    "input_grad": {
      "config": "tuple[2]",
      "0": "<class 'NoneType'>",
      "1": "size=(5, 4), dtype=torch.float32"
    },
    "output_grad": {}
  }
})");
}

TEST_CASE("a structure without modules is an empty object, and bytes that are not UTF-8 are replaced in names") {
  CHECK(output::StructureText({}) == "{}");
  CHECK(output::StructureText({{"0:\xff", {}, {}, {}, {}}}).find("\"0:\xEF\xBF\xBD\": {") != std::string::npos);
}

}  // namespace stepwatch::front_end
