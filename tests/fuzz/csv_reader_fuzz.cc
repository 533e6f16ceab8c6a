// Any bytes as a CSV file: rows are given to the end, with no more text than the file has.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/offline/csv_reader.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int fd = ::memfd_create("csv_reader_fuzz", MFD_CLOEXEC);
  FUZZ_CHECK(fd >= 0);
  FUZZ_CHECK(::write(fd, data, size) == static_cast<ssize_t>(size));
  auto reader = stepwatch::offline::CsvReader::Open("/proc/self/fd/" + std::to_string(fd));
  ::close(fd);
  FUZZ_CHECK(reader.ok());
  std::vector<std::string_view> cells;
  size_t text = 0, rows = 0;
  for (;;) {
    const auto next = reader.value().Next(&cells);
    if (!next.ok() || !next.value()) break;
    for (const std::string_view cell : cells) text += cell.size();
    FUZZ_CHECK(++rows <= size);
  }
  FUZZ_CHECK(text <= size);
  FUZZ_CHECK(reader.value().bytes_read() <= size);
  return 0;
}
