// An engine over an emulated device, and its results against the reference.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/engine.h"
#include "tests/catch.h"
#include "tests/kernels/cuda/device_tensor.h"
#include "tests/kernels/cuda/fake_driver.h"

namespace stepwatch::kernels::cuda::test {

inline std::unique_ptr<DeviceEngine> MakeEngine(FakeDevice* device, DeviceEngineOptions options = {},
                                                uint64_t first = 0) {
  auto engine = Engine::Create(std::make_unique<FakeDriver>(device), options, first);
  REQUIRE(engine.ok());
  return std::move(engine).value();
}

inline std::vector<DeviceItem> ItemsOf(const std::vector<DeviceTensor>& tensors) {
  std::vector<DeviceItem> items(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) items[i].tensor = tensors[i].view;
  return items;
}

// The errors of the harvest of a batch; empty without any.
inline std::string Wrong(DeviceEngine* engine, const std::vector<DeviceItem>& items, const MeasureOptions& options) {
  std::string wrong;
  for (const DeviceItem& item : items) {
    Statistics found;
    if (item.code != StatusCode::kOk)
      wrong += Describe(item.tensor) + " was refused; ";
    else if (!engine->Harvest(item.ticket, &found))
      wrong += Describe(item.tensor) + " has no result; ";
    else if (const std::string names = kernels::test::Difference(found, Expected(item.tensor, options)); !names.empty())
      wrong += Describe(item.tensor) + " differs in " + names + "; ";
  }
  return wrong;
}

}  // namespace stepwatch::kernels::cuda::test
