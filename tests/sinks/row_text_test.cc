#include "src/sinks/row_text.h"

#include <cmath>
#include <string>

#include "stepwatch/tag.h"
#include "tests/catch.h"
#include "tests/sinks/sink_fixture.h"

namespace stepwatch::sinks {
namespace {

using namespace test;

std::string Rows(const RecordLayout& layout, const Frame& frame, SiteKind kind) {
  RowFormatter formatter;
  formatter.Format(layout, frame.view);
  return formatter.rows(kind).text;
}

// The name and micro-step cells of each row, "fc.input:0".
std::string NamesAndMicroSteps(const std::string& rows) {
  std::string names;
  for (size_t begin = 0; begin < rows.size();) {
    const size_t end = rows.find('\n', begin);
    const size_t name = rows.find(',', begin) + 1;
    const size_t step = rows.find(',', name) + 1;
    const size_t micro = rows.find(',', step) + 1;
    names += rows.substr(name, step - 1 - name) + ":" + rows.substr(micro, rows.find(',', micro) - micro) + " ";
    begin = end + 1;
  }
  return names;
}

TEST_CASE("each kind has its own header") {
  RecordLayout layout = Layout({});
  const std::string with_micro_step = "vpp_stage,name,step,micro_step,norm,shape,dtype\n";
  const std::string without = "vpp_stage,name,step,norm,shape,dtype\n";
  for (int k = 0; k < kSiteKindCount; ++k) {
    const auto kind = static_cast<SiteKind>(k);
    INFO(SiteKindName(kind));
    if (IsFeature(kind)) continue;
    const bool of_module = kind == SiteKind::kActv || kind == SiteKind::kActvGrad;
    CHECK(HeaderLine(layout, kind) == (of_module ? with_micro_step : without));
  }
  layout.micro_step_in_grad_unreduced = true;
  CHECK(HeaderLine(layout, SiteKind::kGradUnreduced) == with_micro_step);
  CHECK(HeaderLine(layout, SiteKind::kGradReduced) == without);
  layout.plan_id_column = true;
  CHECK(HeaderLine(layout, SiteKind::kGradReduced) == "vpp_stage,name,step,norm,shape,dtype,plan_id\n");
}

TEST_CASE("the header of an L2 feature holds its own columns, with micro_step where micro-batches differ") {
  RecordLayout layout = Layout({});
  CHECK(HeaderLine(layout, SiteKind::kAttention) == "vpp_stage,name,step,micro_step,entropy,softmax_max\n");
  CHECK(HeaderLine(layout, SiteKind::kLinear) == "vpp_stage,name,step,sr,kernel_norm\n");
  CHECK(HeaderLine(layout, SiteKind::kRouterWeight) == "vpp_stage,name,step,router_weight_similarity\n");
  layout.plan_id_column = true;
  CHECK(HeaderLine(layout, SiteKind::kRouterLogit) ==
        "vpp_stage,name,step,micro_step,per_token_expert_entropy,plan_id\n");
}

TEST_CASE("rows of L2 features hold their numbers, module by module, and nothing about a tensor") {
  const RecordLayout layout =
      Layout({Site(SiteKind::kAttention, "a.attention", 0), Site(SiteKind::kAttention, "b.attention", 1),
              Site(SiteKind::kLinear, "a.linear", 0)});
  const auto feature = [](SiteId site, int32_t micro_step, Stat first, double value, Stat second, double other) {
    Record record;
    record.site = site;
    record.micro_step = micro_step;
    AddValue(&record, Real(first, value));
    AddValue(&record, Real(second, other));
    return record;
  };
  const Frame frame(3, {feature(0, 0, Stat::kEntropy, 1.0, Stat::kSoftmaxMax, 0.5),
                        feature(1, 0, Stat::kEntropy, 2.0, Stat::kSoftmaxMax, 0.25),
                        feature(0, 1, Stat::kEntropy, NAN, Stat::kSoftmaxMax, 0.125),
                        feature(2, 0, Stat::kStableRank, 1.5, Stat::kKernelNorm, 3)});
  CHECK(Rows(layout, frame, SiteKind::kAttention) ==
        "0,a.attention,3,0,1.0,0.5\n0,a.attention,3,1,nan,0.125\n0,b.attention,3,0,2.0,0.25\n");
  CHECK(Rows(layout, frame, SiteKind::kLinear) == "0,a.linear,3,1.5,3.0\n");
}

TEST_CASE("rows of communication operators are in the file of mg_direction") {
  const RecordLayout layout = Layout({Site(SiteKind::kMgDirection, "fc.weight", 0),
                                      Site(SiteKind::kCommunication, "all_reduce.post", 0, Port::kOutput)});
  Record after = NormRecord(1, 4);
  after.element = 0;
  const Frame frame(3, {after, NormRecord(0, 1)});
  CHECK(FileKind(SiteKind::kCommunication) == SiteKind::kMgDirection);
  CHECK(Rows(layout, frame, SiteKind::kMgDirection) ==
        "0,all_reduce.post_0,3,4.0,[2],torch.float32\n0,fc.weight,3,1.0,[2],torch.float32\n");
  CHECK(Rows(layout, frame, SiteKind::kCommunication).empty());
}

TEST_CASE("the rows of msProbe's manual come out to the letter") {
  RecordLayout layout =
      Layout({Site(SiteKind::kActv, "fc.input", 0, Port::kInput),
              Site(SiteKind::kActv, "relu.output", 1, Port::kOutput), Site(SiteKind::kMgDirection, "fc2.bias", 0)});
  layout.ndigits = 4;
  layout.stats = {Stat::kMin,  Stat::kMax, Stat::kMean,  Stat::kNorm, Stat::kZeros,
                  Stat::kNans, Stat::kId,  Stat::kShape, Stat::kDtype};
  Record input;
  input.site = 0;
  SetShape(&input, {5, 4});
  // In another order than the columns: values are found by their statistic.
  AddValue(&input, Real(Stat::kNorm, 4.31382));
  AddValue(&input, Integer(Stat::kNans, 0));
  AddValue(&input, Real(Stat::kMin, -1.58104));
  AddValue(&input, Real(Stat::kZeros, 0));
  AddValue(&input, Real(Stat::kMax, 1.853));
  AddValue(&input, Real(Stat::kMean, 0.34058));
  Record sign;
  sign.site = 2;
  AddValue(&sign, Real(Stat::kNorm, 1));
  const Frame frame(0, {input, sign});
  CHECK(Rows(layout, frame, SiteKind::kActv) ==
        "0,fc.input,0,0,-1.581,1.853,0.3406,4.3138,0.0,0,nan,\"[5, 4]\",torch.float32\n");
  CHECK(Rows(layout, frame, SiteKind::kMgDirection) == "0,fc2.bias,0,nan,nan,nan,1.0,nan,nan,nan,[],torch.float32\n");
}

TEST_CASE("a missing tensor prints nan in every column, also where values lie in the record") {
  const RecordLayout layout = Layout({Site(SiteKind::kActvGrad, ".input", 0, Port::kInput)});
  Record missing = NormRecord(0, 3);
  missing.flags = Record::kMissing;
  CHECK(Rows(layout, Frame(7, {missing}), SiteKind::kActvGrad) == "0,.input,7,0,nan,nan,nan\n");
}

TEST_CASE("name cells carry the tuple element and then the call") {
  const RecordLayout layout = Layout({Site(SiteKind::kActv, "a,b.input", 0, Port::kInput, 3)});
  Record record = NormRecord(0, 1, 2);
  record.element = 0;
  record.call = 1;
  CHECK(Rows(layout, Frame(1, {record}), SiteKind::kActv) == "3,\"a,b.input_0@1\",1,2,1.0,[2],torch.float32\n");
  record.element = kNoElement;
  CHECK(Rows(layout, Frame(1, {record}), SiteKind::kActv) == "3,\"a,b.input@1\",1,2,1.0,[2],torch.float32\n");
}

TEST_CASE("integer and bool tensors keep their own numbers") {
  RecordLayout layout = Layout({Site(SiteKind::kParamOrigin, "mask", 0)});
  layout.stats = {Stat::kMin, Stat::kMax, Stat::kNans, Stat::kId, Stat::kMean, Stat::kShape, Stat::kDtype};
  layout.ndigits = 1;
  Record record;
  SetShape(&record, {0, 3});
  AddValue(&record, Integer(Stat::kMin, 0));
  AddValue(&record, Integer(Stat::kMax, 9007199254740993));
  AddValue(&record, Integer(Stat::kNans, 1));
  AddValue(&record, Real(Stat::kMean, std::nan("")));
  record.dtype = DType::kInt64;
  CHECK(Rows(layout, Frame(0, {record}), SiteKind::kParamOrigin) ==
        "0,mask,0,0,9007199254740993,1,nan,nan,\"[0, 3]\",torch.int64\n");
  record.dtype = DType::kBool;
  CHECK(Rows(layout, Frame(0, {record}), SiteKind::kParamOrigin) ==
        "0,mask,0,False,True,1,nan,nan,\"[0, 3]\",torch.bool\n");
}

TEST_CASE("the plan column is the last one") {
  RecordLayout layout = Layout({Site(SiteKind::kGradReduced, "w", 0)});
  layout.plan_id = 12;
  layout.plan_id_column = true;
  CHECK(Rows(layout, Frame(-3, {NormRecord(0, 2)}), SiteKind::kGradReduced) == "0,w,-3,2.0,[2],torch.float32,12\n");
}

TEST_CASE("activations are grouped by module in the order of first completion, then by micro-step") {
  // child completes first, then root; the second micro-batch comes after the first of all modules
  const RecordLayout layout = Layout(
      {Site(SiteKind::kActv, ".input", 0, Port::kInput), Site(SiteKind::kActv, ".output", 0, Port::kOutput),
       Site(SiteKind::kActv, "fc.input", 1, Port::kInput), Site(SiteKind::kActv, "fc.output", 1, Port::kOutput)});
  std::vector<Record> records;
  for (int32_t micro = 0; micro < 2; ++micro)
    for (SiteId site : {2, 3, 0, 1}) records.push_back(NormRecord(site, 1, micro));
  CHECK(NamesAndMicroSteps(Rows(layout, Frame(0, records), SiteKind::kActv)) ==
        "fc.input:0 fc.output:0 fc.input:1 fc.output:1 .input:0 .output:0 .input:1 .output:1 ");
}

TEST_CASE("activation gradients come in the order of first backward, input before output, calls apart") {
  const RecordLayout layout = Layout({Site(SiteKind::kActvGrad, "a.input", 0, Port::kInput),
                                      Site(SiteKind::kActvGrad, "a.output", 0, Port::kOutput),
                                      Site(SiteKind::kActvGrad, "b.input", 1, Port::kInput)});
  Record second_call = NormRecord(1, 1);
  second_call.call = 1;
  Record first = NormRecord(0, 1);
  first.element = 0;
  Record second = NormRecord(0, 1);
  second.element = 1;
  // Backward meets the last call first, outputs before inputs, the elements of a tuple in any order.
  const Frame frame(0, {second_call, NormRecord(2, 1), NormRecord(1, 1), second, first, NormRecord(1, 1, 1)});
  CHECK(NamesAndMicroSteps(Rows(layout, frame, SiteKind::kActvGrad)) ==
        "a.input_0:0 a.input_1:0 a.output:0 a.output@1:0 a.output:1 b.input:0 ");
}

TEST_CASE("gradients and weights keep the order in which they were produced") {
  RecordLayout layout = Layout({Site(SiteKind::kGradUnreduced, "a", 0), Site(SiteKind::kGradUnreduced, "b", 1),
                                Site(SiteKind::kParamOrigin, "a", 0), Site(SiteKind::kParamOrigin, "b", 1)});
  layout.micro_step_in_grad_unreduced = true;
  const Frame frame(0, {NormRecord(1, 1, 0), NormRecord(3, 1), NormRecord(0, 1, 0), NormRecord(1, 1, 1),
                        NormRecord(2, 1), NormRecord(0, 1, 1)});
  CHECK(NamesAndMicroSteps(Rows(layout, frame, SiteKind::kGradUnreduced)) == "b:0 a:0 b:1 a:1 ");
  CHECK(Rows(layout, frame, SiteKind::kParamOrigin) == "0,b,0,1.0,[2],torch.float32\n0,a,0,1.0,[2],torch.float32\n");
}

TEST_CASE("a formatter keeps nothing of the frame before") {
  const RecordLayout layout =
      Layout({Site(SiteKind::kActv, "a.input", 0, Port::kInput), Site(SiteKind::kActv, "b.input", 1, Port::kInput),
              Site(SiteKind::kParamOrigin, "w", 0)});
  RowFormatter formatter;
  formatter.Format(layout, Frame(0, {NormRecord(0, 1), NormRecord(1, 1), NormRecord(2, 1)}).view);
  const Frame next(1, {NormRecord(1, 1), NormRecord(0, 1)});
  formatter.Format(layout, next.view);
  CHECK(NamesAndMicroSteps(formatter.rows(SiteKind::kActv).text) == "b.input:0 a.input:0 ");
  CHECK(formatter.rows(SiteKind::kActv).records == 2);
  CHECK(formatter.rows(SiteKind::kParamOrigin).records == 0);
  CHECK(formatter.rows(SiteKind::kParamOrigin).text.empty());
}

TEST_CASE("a statistic that a site's group does not have is an empty cell, and what the tensor does not have is nan") {
  RecordLayout layout =
      test::Layout({test::Site(SiteKind::kGradReduced, "a", 0), test::Site(SiteKind::kGradReduced, "b", 1),
                    test::Site(SiteKind::kMgDirection, "c", 2)});
  layout.sites[1].group = 1;
  layout.groups = {{1, {Stat::kMax, Stat::kShape, Stat::kDtype}}};
  layout.columns[static_cast<size_t>(SiteKind::kGradReduced)] = {Stat::kNorm, Stat::kMax, Stat::kShape, Stat::kDtype};
  Record of_group = test::NormRecord(1, 0);
  of_group.values[0] = test::Real(Stat::kMax, 2);
  Record missing = of_group;
  missing.flags |= Record::kMissing;
  const test::Frame frame(7, {test::NormRecord(0, 1.5), of_group, missing, test::NormRecord(2, 0.5)});
  RowFormatter formatter;
  formatter.Format(layout, frame.view);
  CHECK(HeaderLine(layout, SiteKind::kGradReduced) == "vpp_stage,name,step,norm,max,shape,dtype\n");
  CHECK(formatter.rows(SiteKind::kGradReduced).text ==
        "0,a,7,1.5,,[2],torch.float32\n"
        "0,b,7,,2.0,[2],torch.float32\n"
        "0,b,7,,nan,nan,nan\n");
  CHECK(HeaderLine(layout, SiteKind::kMgDirection) == "vpp_stage,name,step,norm,shape,dtype\n");
  CHECK(formatter.rows(SiteKind::kMgDirection).text == "0,c,7,0.5,[2],torch.float32\n");
}

}  // namespace
}  // namespace stepwatch::sinks
