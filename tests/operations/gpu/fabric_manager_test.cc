#include "operations/gpu/fabric_manager.h"

#include <cerrno>
#include <filesystem>
#include <string>

#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace stepwatch::operations {
namespace {

// A host with systemd, or without, and with the unit, or without.
class SystemdHost : public base::FileSystemWrapper {
 public:
  SystemdHost(bool has_systemd, bool has_unit) : has_systemd_(has_systemd), has_unit_(has_unit) {}

  int Stat(const char* path, struct stat* about) override {
    const std::string_view name = path;
    const bool is_there = name == "/run/systemd/system" ? has_systemd_ : has_unit_ && name.ends_with(".service");
    if (is_there) return FileSystemWrapper::Stat("/", about);
    errno = ENOENT;
    return -1;
  }
  int Access(const char* path, int) override {
    struct stat about {};
    return Stat(path, &about);
  }

 private:
  const bool has_systemd_, has_unit_;
};

TEST_CASE("the state of Fabric Manager is that of its unit, and absent where there is none") {
  const testing::TemporaryDirectory directory;
  const std::string systemctl = directory / "systemctl";
  const auto state = [&](const std::string& word, bool has_systemd = true, bool has_unit = true) {
    testing::WriteInPlace(systemctl, "#!/bin/sh\necho " + word + "\ntest " + word + " = active\n");
    std::filesystem::permissions(systemctl, std::filesystem::perms::owner_all);
    SystemdHost host(has_systemd, has_unit);
    return IsFabricManagerActive(-1, host, systemctl);
  };
  CHECK(state("active") == true);
  CHECK(state("failed") == false);
  CHECK(state("unknown") == std::nullopt);
  CHECK(state("active", false) == std::nullopt);
  CHECK(state("active", true, false) == std::nullopt);
  SystemdHost host(true, true);
  CHECK(IsFabricManagerActive(-1, host, "/nowhere/systemctl") == std::nullopt);
}

}  // namespace
}  // namespace stepwatch::operations
