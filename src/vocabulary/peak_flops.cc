#include "stepwatch/peak_flops.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

namespace stepwatch {
namespace {

// TFLOP/s; 0: not supported, or not published.
struct Row {
  std::array<std::string_view, 3> words;  // all are in the name; empty: none
  double bfloat16, float16, float32;
};

// The first row whose words are all in the name holds, so a variant precedes its family. Data sheets that list rates
// with sparsity have twice the dense rate.
constexpr Row kRows[] = {
    // NVIDIA Blackwell architecture technical brief and HGX data sheet. The superchips run at a higher power.
    {{"GB300"}, 2500, 2500, 80},
    {{"GB200"}, 2500, 2500, 80},
    {{"B300"}, 2250, 2250, 75},
    {{"B200"}, 2250, 2250, 75},
    {{"B100"}, 1750, 1750, 60},
    // NVIDIA H100, H200, GH200 and H20 data sheets. HBM3 without another word is the SXM module.
    {{"GH200"}, 989.4, 989.4, 66.9},
    {{"H200", "NVL"}, 835.5, 835.5, 60},
    {{"H200"}, 989.4, 989.4, 66.9},
    {{"H100", "NVL"}, 835.5, 835.5, 60},
    {{"H100", "PCIe"}, 756.5, 756.5, 51.2},
    {{"H100", "HBM3"}, 989.4, 989.4, 66.9},
    {{"H100", "SXM5"}, 989.4, 989.4, 66.9},
    {{"H800", "PCIe"}, 756.5, 756.5, 51.2},
    {{"H800"}, 989.4, 989.4, 66.9},
    {{"H20"}, 148, 148, 44},
    // NVIDIA A100, A30, A40, A10 and RTX A6000 data sheets; AWS's page of the A10G.
    {{"A100"}, 312, 312, 19.5},
    {{"A800"}, 312, 312, 19.5},
    {{"A30"}, 165, 165, 10.3},
    {{"A40"}, 149.7, 149.7, 37.4},
    {{"A10G"}, 70, 70, 31.5},
    {{"A10"}, 125, 125, 31.2},
    {{"RTX", "A6000"}, 154.8, 154.8, 38.7},
    // NVIDIA L4, L40, L40S and RTX 6000 Ada data sheets.
    {{"L40S"}, 362.05, 362.05, 91.6},
    {{"L40"}, 181.05, 181.05, 90.5},
    {{"L4"}, 121, 121, 30.3},
    {{"RTX", "6000", "Ada"}, 364.2, 364.2, 91.1},
    // NVIDIA GeForce architecture white papers: Blackwell, Ada, Ampere (the rates with accumulation in 32 bits).
    {{"RTX", "5090"}, 209.5, 209.5, 104.8},
    {{"RTX", "4090"}, 165.2, 165.2, 82.6},
    {{"RTX", "3090"}, 71, 71, 35.6},
    // NVIDIA V100 and T4 data sheets: no products of bfloat16.
    {{"V100S"}, 0, 130, 16.4},
    {{"V100", "PCIe"}, 0, 112, 14},
    {{"V100", "SXM2"}, 0, 125, 15.7},
    {{"V100", "SXM3"}, 0, 125, 15.7},
    {{"T4"}, 0, 65, 8.1},
    // AMD Instinct data sheets. A program sees one of the two dies of an MI250X.
    {{"MI325X"}, 1307.4, 1307.4, 163.4},
    {{"MI300X"}, 1307.4, 1307.4, 163.4},
    {{"MI250X"}, 191.5, 191.5, 47.9},
};

// Words of variants with rates of their own that are not in the table.
constexpr std::string_view kOtherVariants[] = {"MIG", "Laptop", "Mobile", "D", "Ti", "SUPER", "Max", "GRID"};

bool IsSame(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

std::vector<std::string_view> WordsOf(std::string_view name) {
  constexpr std::string_view kBetween = " -/_";
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const size_t length = std::min(name.find_first_of(kBetween), name.size());
    if (length > 0) words.push_back(name.substr(0, length));
    name.remove_prefix(std::min(length + 1, name.size()));
  }
  return words;
}

bool Has(const std::vector<std::string_view>& words, std::string_view wanted) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return IsSame(word, wanted); });
}

// The profile of a virtual GPU: "40C", "10Q".
bool IsVirtual(std::string_view word) {
  return word.size() >= 2 && std::string_view("ABCQ").find(word.back()) != std::string_view::npos &&
         std::all_of(word.begin(), word.end() - 1, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<double> PeakFlops(std::string_view device_name, DType dtype) {
  const std::vector<std::string_view> words = WordsOf(device_name.substr(0, 200));
  for (const std::string_view other : kOtherVariants)
    if (Has(words, other)) return std::nullopt;
  if (std::any_of(words.begin(), words.end(), IsVirtual)) return std::nullopt;
  for (const Row& row : kRows) {
    const bool fits = std::all_of(row.words.begin(), row.words.end(),
                                  [&](std::string_view word) { return word.empty() || Has(words, word); });
    if (!fits) continue;
    const double tera = dtype == DType::kBFloat16  ? row.bfloat16
                        : dtype == DType::kFloat16 ? row.float16
                        : dtype == DType::kFloat32 ? row.float32
                                                   : 0;
    if (tera > 0) return tera * 1e12;
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace stepwatch
