// Memory for partials and counters. Launches on one stream run in order and share an area; launches on different
// streams may run concurrently and use different areas.
#pragma once

#include <array>

#include "kernels/cuda/driver.h"
#include "kernels/cuda/packer.h"
#include "kernels/cuda/ticket_ring.h"

namespace stepwatch::kernels::cuda {

class ScratchAreas {
 public:
  static constexpr size_t kAreas = 4;

  // Returns false if the device has not enough memory.
  bool Allocate(Driver* driver) {
    for (Area& area : areas_) {
      area.tiles = static_cast<Partial*>(driver->AllocateDevice(kTilesMax * sizeof(Partial)));
      area.groups = static_cast<Partial*>(driver->AllocateDevice(kGroupsMax * sizeof(Partial)));
      area.counters = static_cast<uint32_t*>(driver->AllocateDevice(kGroupsMax * sizeof(uint32_t)));
      if (area.tiles == nullptr || area.groups == nullptr || area.counters == nullptr) return false;
    }
    return true;
  }

  // Withdraws the area of a tensor that was measured in part: its counters never return to zero.
  void Retire(const Launch& launch) {
    for (Area& area : areas_) area.retired |= area.counters == launch.counters;
  }

  // Points the launch at the stream's area. Returns false if all areas may be in use by other streams.
  bool Lend(Stream stream, const TicketRing& ring, const TicketRing::Range& tickets, Launch* launch) {
    Area* area = Find(stream, ring);
    if (area == nullptr) return false;
    area->used = true;
    area->stream = stream;
    area->tickets = tickets;
    launch->tile_partials = area->tiles;
    launch->group_partials = area->groups;
    launch->counters = area->counters;
    return true;
  }

 private:
  struct Area {
    Partial* tiles = nullptr;
    Partial* groups = nullptr;
    uint32_t* counters = nullptr;
    bool used = false;
    bool retired = false;
    Stream stream = nullptr;
    TicketRing::Range tickets;  // of the last launch; once they are written, all earlier launches are complete
  };

  Area* Find(Stream stream, const TicketRing& ring) {
    for (Area& area : areas_)
      if (!area.retired && area.used && area.stream == stream) return &area;
    for (Area& area : areas_)
      if (!area.retired && (!area.used || ring.AllWritten(area.tickets))) return &area;
    return nullptr;
  }

  std::array<Area, kAreas> areas_;
};

}  // namespace stepwatch::kernels::cuda
