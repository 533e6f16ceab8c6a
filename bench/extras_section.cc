// Less frequent statistics: the agreement of signs of two tensors, and statistics with a histogram.

#include <stdexcept>

#include "bench/buffer.h"
#include "bench/plain_read.h"
#include "bench/sections.h"
#include "kernels/histogram.h"
#include "kernels/kernels.h"

namespace stepwatch::bench {
namespace {

void MeasureCounting(const TensorView& tensor, kernels::Histogram* histogram) {
  Statistics statistics;
  const Status status = kernels::Measure(tensor, {}, &statistics, histogram);
  if (!status.ok()) throw std::runtime_error(status.ToString());
  Keep(statistics);
}

void AgreeInSign(const TensorView& a, const TensorView& b) {
  double agreement = 0;
  const Status status = kernels::SignAgreement(a, b, &agreement);
  if (!status.ok()) throw std::runtime_error(status.ToString());
  Keep(agreement);
}

}  // namespace

void MeasureExtras(const Settings& settings, Report* report) {
  constexpr size_t kBytes = size_t{256} << 20;
  report->Section("fp32, one thread, 256 MB a tensor, cold");
  Buffer first(kBytes), second(kBytes);
  first.FillNormal(DType::kFloat32);
  second.FillNormal(DType::kFloat32);
  const TensorView a = first.View(DType::kFloat32), b = second.View(DType::kFloat32);
  kernels::Histogram exponents = kernels::Histogram::Exponents();
  kernels::Histogram linear = kernels::Histogram::Linear(-0.1, 0.1, 64).value();
  Rounds rounds(Clock::kThreadCpu);
  const size_t agreement = rounds.Add([&] { AgreeInSign(a, b); });
  const size_t read = rounds.Add([&] {
    Keep(PlainRead(first.data(), kBytes));
    Keep(PlainRead(second.data(), kBytes));
  });
  const size_t with_exponents = rounds.Add([&] { MeasureCounting(a, &exponents); });
  const size_t with_linear = rounds.Add([&] { MeasureCounting(a, &linear); });
  const size_t without = rounds.Add([&] { MeasureAll(a); });
  rounds.Run(settings.rounds);
  report->Ratio("sign_agreement_over_read", rounds.Ratio(read, agreement), Style::kPercent, AtLeast(0.9),
                "over a plain read of both tensors");
  const auto with_histogram = [&](const char* name, size_t action) {
    const Spread seconds = rounds.SecondsOf(action);
    const double gigabytes = static_cast<double>(kBytes) * 1e-9;
    report->Figure(name + std::string("_gb_per_s"),
                   {gigabytes / seconds.median, gigabytes / seconds.high, gigabytes / seconds.low}, "GB/s", AtLeast(5));
    report->Ratio(name + std::string("_over_without"), rounds.Ratio(without, action), Style::kPercent, {},
                  "over the statistics alone");
  };
  with_histogram("exponent_bins", with_exponents);
  with_histogram("linear_bins_64", with_linear);
}

}  // namespace stepwatch::bench
