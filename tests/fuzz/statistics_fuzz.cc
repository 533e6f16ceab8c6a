// The kernels against the reference, bit for bit, on tensors that a string of bytes describes: Measure, MeasureBatch
// with threads lent in several ways, with a histogram, SignAgreement.
//
// An entry as libFuzzer wants it. Where the compiler has libFuzzer, link it (-fsanitize=fuzzer) in place of
// fuzz_driver.cc.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "kernels/histogram.h"
#include "kernels/reference.h"
#include "tests/fuzz/tensor_from_bytes.h"
#include "tests/kernels/tensor_model.h"

namespace stepwatch::test {
namespace {

using kernels::Histogram;
using kernels::test::Describe;

void OneByOneBackwards(int64_t count, ParallelBody body, void* context) {
  for (int64_t i = count; i-- > 0;) body(context, i, i + 1);
}

void UnevenPieces(int64_t count, ParallelBody body, void* context) {
  const int64_t third = count / 3;
  if (third < count) body(context, third, count);
  if (third > 0) body(context, 0, third);
}

void OnTwoThreads(int64_t count, ParallelBody body, void* context) {
  const int64_t half = count / 2;
  std::thread other([=] {
    if (half > 0) body(context, 0, half);
  });
  if (half < count) body(context, half, count);
  other.join();
}

constexpr ParallelFor kWaysToLend[] = {nullptr, OneByOneBackwards, UnevenPieces, OnTwoThreads};

kernels::MeasureOptions TakeOptions(ByteReader* bytes) {
  constexpr double kThresholds[] = {1e-8, 1e-8, 0, 1e-40, 0.25, 3, 1e300, -1};
  const double eps = kThresholds[bytes->Below(std::size(kThresholds))];
  return {eps, bytes->OneIn(3) ? EpsMode::kExact : EpsMode::kParity};
}

// A tensor and its statistics by the reference.
struct Case {
  OwnedTensor tensor;
  StatusCode code;
  Statistics expected;
};

std::string Compare(const char* call, const Case& subject, StatusCode code, const Statistics& found) {
  std::string wrong;
  if (code != subject.code) {
    wrong =
        "code " + std::to_string(static_cast<int>(code)) + ", not " + std::to_string(static_cast<int>(subject.code));
  } else if (code == StatusCode::kOk) {
    wrong = kernels::test::Difference(found, subject.expected);
  }
  return wrong.empty() ? "" : std::string(call) + " on " + Describe(subject.tensor.view) + ": " + wrong + "\n";
}

std::string CompareBatch(const std::deque<Case>& cases, const kernels::MeasureOptions& options, ParallelFor lend) {
  std::vector<kernels::BatchItem> items;
  for (const Case& subject : cases) items.push_back({subject.tensor.view, {}, StatusCode::kInternal});
  kernels::MeasureBatch(items.data(), items.size(), options, lend);
  std::string wrong;
  for (size_t i = 0; i < items.size(); ++i)
    wrong += Compare("MeasureBatch", cases[i], items[i].code, items[i].statistics);
  return wrong;
}

std::string CompareAgreement(const TensorView& a, const TensorView& b) {
  double expected = -1, found = -1;
  const StatusCode code = kernels::reference::SignAgreement(a, b, &expected).code();
  if (kernels::SignAgreement(a, b, &found).code() == code && found == expected) return "";
  return "SignAgreement of " + Describe(a) + " and " + Describe(b) + ": " + std::to_string(found) + ", not " +
         std::to_string(expected) + "\n";
}

Histogram TakeLinear(ByteReader* bytes) {
  const double low = static_cast<double>(bytes->Below(100)) - 50;
  const double width = 0.25 * static_cast<double>(1 + bytes->Below(100));
  return Histogram::Linear(low, low + width, 1 + static_cast<int>(bytes->Below(Histogram::kBinsMax, 2))).value();
}

// Statistics must not change because elements are counted as well, and every element is counted once.
std::string CompareWithHistogram(const Case& subject, const kernels::MeasureOptions& options, ByteReader* bytes) {
  const bool linear = bytes->OneIn(2);
  Histogram histogram = linear ? TakeLinear(bytes) : Histogram::Exponents();
  Statistics found;
  const StatusCode code = kernels::Measure(subject.tensor.view, options, &found, &histogram).code();
  const std::string wrong = Compare("Measure with a histogram", subject, code, found);
  if (!wrong.empty() || code != StatusCode::kOk) return wrong;
  int64_t all = histogram.below() + histogram.above() + histogram.zeros() + histogram.nans();
  if (!linear) all += histogram.infs();  // which linear bins have below or above as well
  for (int64_t count : histogram.counts()) all += count;
  if (all == found.numel && histogram.nans() == found.nans && histogram.infs() == found.infs) return "";
  return "the histogram of " + Describe(subject.tensor.view) + " holds " + std::to_string(all) + " elements, " +
         std::to_string(histogram.nans()) + " NaN, " + std::to_string(histogram.infs()) + " infinities\n";
}

// All disagreements with the reference; empty without any.
std::string Disagreement(ByteReader bytes) {
  const kernels::MeasureOptions options = TakeOptions(&bytes);
  const ParallelFor lend = kWaysToLend[bytes.Below(std::size(kWaysToLend))];
  const int64_t count = 1 + bytes.Below(8);
  std::string wrong;
  std::deque<Case> cases;
  do {
    Case& subject = cases.emplace_back(Case{TensorFromBytes(&bytes), StatusCode::kOk, {}});
    subject.code = kernels::reference::Measure(subject.tensor.view, options, &subject.expected).code();
    Statistics found;
    const StatusCode code = kernels::Measure(subject.tensor.view, options, &found).code();
    wrong += Compare("Measure", subject, code, found);
  } while (static_cast<int64_t>(cases.size()) < count && !bytes.exhausted());
  wrong += CompareBatch(cases, options, lend);
  wrong += CompareWithHistogram(cases.back(), options, &bytes);
  const OwnedTensor other = TensorFromBytes(&bytes, cases.back().tensor.view);
  return wrong + CompareAgreement(cases.back().tensor.view, other.view);
}

}  // namespace
}  // namespace stepwatch::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string wrong = stepwatch::test::Disagreement({data, size});
  if (wrong.empty()) return 0;
  std::fprintf(stderr, "%sthe input, for xxd -r -p: ", wrong.c_str());
  for (size_t i = 0; i < size; ++i) std::fprintf(stderr, "%02x", data[i]);
  std::fputc('\n', stderr);
  std::abort();
}
