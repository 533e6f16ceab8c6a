// Where the numbers of torch's operators arrive, without torch: pages that a device is writing.
#include "front_ends/python/native/late_table.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "tests/catch.h"

namespace stepwatch::python {
namespace {

constexpr uint8_t kExtremes = kLateMin | kLateMax;

std::vector<double> Unwritten(size_t count) {
  double mark = 0;
  std::memcpy(&mark, &kUnwritten, sizeof mark);
  return std::vector<double>(count, mark);
}

// Writes as a device does: the compiler's own copy of a signalling NaN could make it a quiet one.
void Write(std::vector<double>* page, size_t cell, double number) {
  std::memcpy(page->data() + cell, &number, sizeof number);
}

TEST_CASE("numbers are there when all of their cells are written") {
  LateTable table;
  const uint64_t ticket = table.Claim({4, false});
  REQUIRE(ticket != 0);
  Statistics found;
  CHECK_FALSE(table.Harvest(ticket, &found));
  std::vector<double> page = Unwritten(6);
  table.Publish(ticket, {LatePage(page.data(), false), kLateNorm | kLateSum, 1, 3});
  CHECK_FALSE(table.Harvest(ticket, &found));
  Write(&page, 4, 10);  // the sum
  CHECK_FALSE(table.Harvest(ticket, &found));
  Write(&page, 1, 6);
  REQUIRE(table.Harvest(ticket, &found));
  CHECK(found.norm == 6);
  CHECK(found.mean == 2.5);
  CHECK_FALSE(table.InUse(ticket));
  CHECK_FALSE(table.Harvest(ticket, &found));
}

TEST_CASE("a ticket names nothing else, however often its place is taken again") {
  LateTable table;
  std::set<uint64_t> seen;
  for (int i = 0; i < 100000; ++i) {
    const uint64_t ticket = table.Claim({1, false});
    REQUIRE(seen.insert(ticket).second);
    table.Discard(ticket);
    table.Discard(ticket);
  }
  std::vector<double> page{1};
  table.Publish(*seen.begin(), {LatePage(page.data(), false), kLateNorm, 0, 1});
  Statistics found;
  CHECK_FALSE(table.Harvest(*seen.begin(), &found));
}

TEST_CASE("as many tickets as a step may need are there, and no more than there is room for") {
  LateTable table;
  std::vector<uint64_t> tickets;
  for (uint64_t ticket = 1; tickets.size() < 100000; tickets.push_back(ticket))
    REQUIRE((ticket = table.Claim({1, false})) != 0);
  CHECK(std::set<uint64_t>(tickets.begin(), tickets.end()).size() == tickets.size());
  for (const uint64_t ticket : tickets) CHECK(table.InUse(ticket));
}

TEST_CASE("integers come in parts and keep every bit") {
  const LateRow row{3, true};
  constexpr uint8_t kColumns = kExtremes | kLateNans;
  const int64_t least = -(int64_t{1} << 60) - 3;
  const int64_t greatest = (int64_t{1} << 53) + 1;
  SECTION("in float64") {
    CHECK(CellsOf(row, kColumns, false) == 5);
    const double cells[] = {static_cast<double>(least >> 32), static_cast<double>(least & 0xffffffff),
                            static_cast<double>(greatest >> 32), static_cast<double>(greatest & 0xffffffff), 2};
    const Statistics found = StatisticsOf(row, kColumns, cells, false);
    CHECK(found.integral);
    CHECK(found.min_int == least);
    CHECK(found.max_int == greatest);
    CHECK(found.nans == 2);
  }
  SECTION("in float32") {
    CHECK(CellsOf(row, kColumns, true) == 8);
    const auto part = [](int64_t value, int place) { return static_cast<double>(value >> 24 * place & 0xffffff); };
    const double cells[] = {static_cast<double>(least >> 48),
                            part(least, 1),
                            part(least, 0),
                            static_cast<double>(greatest >> 48),
                            part(greatest, 1),
                            part(greatest, 0),
                            5,
                            7};
    const Statistics found = StatisticsOf(row, kColumns, cells, true);
    CHECK(found.min_int == least);
    CHECK(found.max_int == greatest);
    CHECK(found.nans == 5 * (int64_t{1} << 24) + 7);
  }
}

TEST_CASE("a page of float32 has a mark of its own") {
  LateTable table;
  const uint64_t ticket = table.Claim({1, false});
  std::vector<int32_t> page(2, kUnwrittenSingle);
  table.Publish(ticket, {LatePage(page.data(), true), kExtremes, 0, 1});
  Statistics found;
  CHECK_FALSE(table.Harvest(ticket, &found));
  const float numbers[] = {-1.5F, 2.5F};
  std::memcpy(page.data(), numbers, sizeof numbers);
  REQUIRE(table.Harvest(ticket, &found));
  CHECK(found.min == -1.5);
  CHECK(found.max == 2.5);
  CHECK(found.abs_max == 2.5);
}

TEST_CASE("a NaN that a device loses in the extremes is seen in the norm") {
  const double cells[] = {std::nan(""), 1, 2};
  const Statistics found = StatisticsOf({3, false}, kLateNorm | kExtremes, cells, false);
  CHECK(std::isnan(found.min));
  CHECK(std::isnan(found.max));
  CHECK(std::isnan(found.abs_max));
}

TEST_CASE("what a device has no operator for is not known, and there at once") {
  LateTable table;
  const uint64_t ticket = table.Claim({3, true});
  table.Publish(ticket, {LatePage(), 0, 0, 1});
  Statistics found;
  REQUIRE(table.Harvest(ticket, &found));
  CHECK(found.numel == 3);
  CHECK(std::isnan(found.norm));
  CHECK(std::isnan(found.mean));
  CHECK(std::isnan(found.min));
  CHECK_FALSE(found.integral);
  CHECK(std::isnan(found.zeros));
  CHECK(found.nans == -1);
  CHECK(found.infs == -1);
}

TEST_CASE("many tickets are claimed, published and harvested while another thread discards some of them") {
  LateTable table;
  const std::vector<double> page{2.5};
  std::atomic<uint64_t> handed{0};
  std::atomic<bool> is_over{false};
  std::atomic<int> harvested{0};
  std::thread drain([&] {
    for (int taken = 0; !is_over || handed != 0;) {
      const uint64_t ticket = handed.exchange(0);
      if (ticket == 0) {
        std::this_thread::yield();
        continue;
      }
      Statistics found;
      if (++taken % 3 == 0) {
        table.Discard(ticket);
      } else if (table.Harvest(ticket, &found)) {
        ++harvested;
        if (found.norm != 2.5) std::abort();
      } else {
        handed = ticket;  // not published yet; the producer waits
        --taken;
      }
    }
  });
  for (int i = 0; i < 300; ++i) {
    const uint64_t ticket = table.Claim({1, false});
    handed = ticket;
    table.Publish(ticket, {LatePage(page.data(), false), kLateNorm, 0, 1});
    while (table.InUse(ticket)) std::this_thread::yield();
  }
  is_over = true;
  drain.join();
  CHECK(harvested == 200);
}

}  // namespace
}  // namespace stepwatch::python
