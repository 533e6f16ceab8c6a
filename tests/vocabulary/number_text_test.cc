#include "src/vocabulary/number_text.h"

#include <clocale>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "tests/catch.h"
#include "tests/random_seed.h"

namespace stepwatch::vocabulary {
namespace {

std::string Text(double value, int ndigits = -1) {
  std::string text;
  AppendDouble(value, ndigits, &text);
  return text;
}

struct Known {
  double value;
  int ndigits;
  const char* text;
};

// Made with Python 3.11: repr(value) for ndigits -1, repr(float(numpy.around(value, ndigits))) with numpy 2 otherwise.
constexpr Known kPython[] = {
    {0x0.0p+0, -1, "0.0"},
    {-0x0.0p+0, -1, "-0.0"},
    {0x1.999999999999ap-4, -1, "0.1"},
    {0x1.0000000000000p+0, -1, "1.0"},
    {-0x1.0000000000000p+0, -1, "-1.0"},
    {0x1.0000000000000p+1, -1, "2.0"},
    {0x1.0000000000000p-1, -1, "0.5"},
    {0x1.1c37937e08000p+53, -1, "1e+16"},
    {0x1.1c37937e07fffp+53, -1, "9999999999999998.0"},
    {0x1.0000000000000p+53, -1, "9007199254740992.0"},
    {0x1.0f0cf064dd592p+73, -1, "1e+22"},
    {0x1.52d02c7e14af6p+76, -1, "1e+23"},
    {0x0.0000000000001p-1022, -1, "5e-324"},
    {0x1.0000000000000p-1022, -1, "2.2250738585072014e-308"},
    {0x1.fffffffffffffp+1023, -1, "1.7976931348623157e+308"},
    {0x1.a36e2eb1c432dp-14, -1, "0.0001"},
    {0x1.a36371ea531a8p-14, -1, "9.999e-05"},
    {0x1.4f8b588e368f1p-17, -1, "1e-05"},
    {0x1.92a737110e454p-17, -1, "1.2e-05"},
    {0x1.0c6f7a0b5ed8dp-22, -1, "2.5e-07"},
    {0x1.02c9dedbc309dp-13, -1, "0.0001234"},
    {0x1.4ebdc20000000p+5, -1, "41.842655181884766"},
    {0x1.d6f34547e6b83p+26, -1, "123456789.123457"},
    {0x1.2a05f20000000p+33, -1, "10000000000.0"},
    {0x1.aa535d3d0c000p+53, -1, "1.5e+16"},
    {0x1.c6bf526340000p+49, -1, "1000000000000000.0"},
    {0x1.b69b4ba630f35p+56, -1, "1.2345678901234568e+17"},
    {0x1.921fb54442d18p+1, -1, "3.141592653589793"},
    {-0x1.12e0be826d695p-32, -1, "-2.5e-10"},
    {0x1.249ad2594c37dp+332, -1, "1e+100"},
    {0x1.1666666666666p+2, -1, "4.35"},
    {0x1.5555555555555p-2, -1, "0.3333333333333333"},
    {0x1.bf647612f3696p-19, -1, "3.3333333333333333e-06"},
    {0x1.0000000000000p+53, -1, "9007199254740992.0"},
    {0x1.0000000000000p+63, -1, "9.223372036854776e+18"},
    {0x1.1c37937e08000p+52, -1, "5000000000000000.0"},
    {0x1.0e0198eaee000p+53, -1, "9500000000000000.0"},
    {0x1.0000000000001p+0, -1, "1.0000000000000002"},
    {0x1.0000000000000p-20, -1, "9.5367431640625e-07"},
    {0x1.c8b8218854567p-146, -1, "2e-44"},
    {0x1.0000000000000p-149, -1, "1.401298464324817e-45"},
    {0x1.1de784a000000p+28, -1, "299792458.0"},
    {0x1.ffc0000000000p+15, -1, "65504.0"},
    {0x1.bff2ee48e0530p-333, -1, "1e-100"},
    {-0x1.e3d71f622be94p-665, -1, "-1.2345678901234567e-200"},
    {0x1.0c6f7a0b5ed8dp-22, 6, "0.0"},
    {0x1.0000000000000p-1, 0, "0.0"},
    {0x1.8000000000000p+0, 0, "2.0"},
    {0x1.4000000000000p+1, 0, "2.0"},
    {-0x1.0000000000000p-1, 0, "-0.0"},
    {-0x1.4000000000000p+1, 0, "-2.0"},
    {0x1.c000000000000p+1, 0, "4.0"},
    {0x1.0000000000000p-3, 2, "0.12"},
    {0x1.8000000000000p-2, 2, "0.38"},
    {0x1.5666666666666p+1, 2, "2.68"},
    {0x1.0147ae147ae14p+0, 2, "1.0"},
    {0x1.4ebdc20000000p+5, 6, "41.842655"},
    {0x1.4ebdc20000000p+5, 16, "41.842655181884766"},
    {0x1.4ebdc20000000p+5, 4, "41.8427"},
    {0x1.d6f34547e6b6fp+26, 6, "123456789.123457"},
    {0x1.4f8b588e368f1p-17, 6, "1e-05"},
    {0x1.92a737110e454p-17, 6, "1.2e-05"},
    {0x1.a36e2eb1c432dp-17, 6, "1.2e-05"},
    {0x1.07111652d2b5cp-21, 6, "0.0"},
    {0x1.0c6f7a0b5ed8dp-21, 6, "0.0"},
    {0x1.92a737110e454p-20, 6, "2e-06"},
    {-0x1.12e0be826d695p-30, 6, "-0.0"},
    {0x1.1c37937e08000p+53, 6, "1e+16"},
    {0x1.aa535d3d0c000p+53, 3, "1.5e+16"},
    {0x1.999999999999ap-4, 20, "0.1"},
    {0x1.79ca10c924223p-67, 20, "1e-20"},
    {0x0.0000000000001p-1022, 20, "0.0"},
    {0x1.485ce9e7a065fp+963, 10, "1e+290"},
    {0x1.fffffffffffffp+1023, 0, "1.7976931348623157e+308"},
    {0x1.3333333333334p-2, 15, "0.3"},
    {0x1.3333333333334p-2, 16, "0.3"},
    {0x1.5555555555555p-2, 6, "0.333333"},
    {0x1.5555555555555p-1, 1, "0.7"},
    {0x1.3ffffef39085fp+3, 6, "10.0"},
    {0x1.ffffef39085f5p-1, 6, "1.0"},
    {0x1.df03291645c7dp+5, 9, "59.876543211"},
    {0x1.34a456d5cfaadp+10, 1, "1234.6"},
    {-0x1.34a456d5cfaadp+10, 2, "-1234.57"},
    {0x1.c000000000000p+2, 6, "7.0"},
    {0x1.7e43c8800759cp+996, 6, "1e+300"},
    {0x1.e5e300c0c52cap-5, 6, "0.059312"},
};

TEST_CASE("a number prints as Python and numpy print it") {
  for (const Known& known : kPython) {
    INFO("value " << known.text << ", ndigits " << known.ndigits);
    CHECK(Text(known.value, known.ndigits) == known.text);
  }
}

TEST_CASE("what is not a number prints as pandas reads it") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (int ndigits : {-1, 0, 6}) {
    CHECK(Text(std::nan(""), ndigits) == "nan");
    CHECK(Text(-std::nan(""), ndigits) == "nan");
    CHECK(Text(infinity, ndigits) == "inf");
    CHECK(Text(-infinity, ndigits) == "-inf");
  }
}

TEST_CASE("a value that rounding would overflow stays as it is") {
  CHECK(Text(1e290, 20) == "1e+290");
  CHECK(Text(-1.7976931348623157e308, 1) == "-1.7976931348623157e+308");
}

TEST_CASE("without ndigits every double reads back to the same bits", "[random]") {
  const uint64_t seed = test::RandomSeed();
  INFO("repeat with STEPWATCH_SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bits = random();
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    const std::string text = Text(value);
    const double back = std::strtod(text.c_str(), nullptr);
    if (std::memcmp(&back, &value, sizeof value) != 0) FAIL(text << " reads back to another double");
    if (text.find_first_of(".e") == std::string::npos) FAIL(text << " would read as an integer");
  }
}

TEST_CASE("numbers do not depend on the locale") {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  std::setlocale(LC_ALL, "de_DE.UTF-8");  // a decimal comma, where it is installed
  CHECK(Text(1.5) == "1.5");
  std::setlocale(LC_ALL, before.c_str());
}

TEST_CASE("integers print whole at both ends of their range") {
  std::string text;
  AppendInteger(std::numeric_limits<int64_t>::min(), &text);
  AppendInteger(std::numeric_limits<int64_t>::max(), &text);
  CHECK(text == "-92233720368547758089223372036854775807");
}

TEST_CASE("a cell is quoted only when it must be") {
  const auto cell = [](const char* given) {
    std::string text;
    AppendCell(given, &text);
    return text;
  };
  CHECK(cell("fc.weight") == "fc.weight");
  CHECK(cell("") == "");
  CHECK(cell(" a b;c'") == " a b;c'");
  CHECK(cell("a,b") == "\"a,b\"");
  CHECK(cell("say \"x\"") == "\"say \"\"x\"\"\"");
  CHECK(cell("two\nlines") == "\"two\nlines\"");
  CHECK(cell("cr\r") == "\"cr\r\"");
}

}  // namespace
}  // namespace stepwatch::vocabulary
