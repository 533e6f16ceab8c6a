// The names behind the enumerations of include/stepwatch.

#include "stepwatch/event.h"
#include "stepwatch/monitor.h"
#include "stepwatch/record.h"
#include "stepwatch/statistics.h"
#include "stepwatch/tensor_view.h"

namespace stepwatch {

int ElementSize(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64: return 8;
    case DType::kFloat32:
    case DType::kInt32: return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16: return 2;
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
    case DType::kInt8:
    case DType::kUInt8:
    case DType::kBool: return 1;
    case DType::kOther: break;
  }
  return 0;
}

const char* DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return "torch.float64";
    case DType::kFloat32: return "torch.float32";
    case DType::kFloat16: return "torch.float16";
    case DType::kBFloat16: return "torch.bfloat16";
    case DType::kFloat8E4M3: return "torch.float8_e4m3fn";
    case DType::kFloat8E5M2: return "torch.float8_e5m2";
    case DType::kInt64: return "torch.int64";
    case DType::kInt32: return "torch.int32";
    case DType::kInt16: return "torch.int16";
    case DType::kInt8: return "torch.int8";
    case DType::kUInt8: return "torch.uint8";
    case DType::kBool: return "torch.bool";
    case DType::kOther: break;
  }
  return "torch.other";
}

TensorView DenseView(const void* data, DType dtype, const int64_t* sizes, int ndim) {
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  view.ndim = ndim;
  int64_t stride = 1;
  for (int i = ndim - 1; i >= 0; --i) {
    view.sizes[static_cast<size_t>(i)] = sizes[i];
    view.strides[static_cast<size_t>(i)] = stride;
    stride *= sizes[i];
  }
  view.numel = stride;
  return view;
}

std::optional<Stat> StatFromName(std::string_view name) {
  for (int i = 0; i < kOpCount; ++i)
    if (name == kStatTraits[i].name) return static_cast<Stat>(i);
  return std::nullopt;
}

const char* DropReasonName(DropReason reason) {
  static constexpr const char* kNames[kDropReasonCount] = {"ring_full", "unsupported", "late", "sink_failed"};
  return kNames[static_cast<int>(reason)];
}

const char* PhaseName(Phase phase) {
  static constexpr const char* kNames[kPhaseCount] = {"init", "train", "eval", "checkpoint", "paused"};
  return kNames[static_cast<int>(phase)];
}

const char* RunEndName(RunEnd end) {
  static constexpr const char* kNames[] = {"ok", "error", "signal"};
  return kNames[static_cast<int>(end)];
}

const char* RunStateName(RunState state) {
  static constexpr const char* kNames[] = {"OFF", "IDLE", "PREPARING", "ARMED", "COLLECTING", "DRAINING", "FAILED"};
  return kNames[static_cast<int>(state)];
}

const char* EventKindName(EventKind kind) {
  static constexpr const char* kNames[] = {
      "seen",       "refused",  "warning", "note",     "missing", "unreadable", "restored", "armed",
      "superseded", "stopping", "applied", "finished", "drained", "wrote_back", "degraded", "recovered",
      "alarm",      "aborted",  "paused",  "resumed",  "rotated", "limited",    "not_begun"};
  return kNames[static_cast<int>(kind)];
}

EventSeverity SeverityOf(EventKind kind) {
  switch (kind) {
    case EventKind::kRefused:
    case EventKind::kWarning:
    case EventKind::kMissing:
    case EventKind::kUnreadable:
    case EventKind::kAlarm:
    case EventKind::kAborted:
    case EventKind::kLimited: return EventSeverity::kWarning;
    case EventKind::kDegraded: return EventSeverity::kError;
    case EventKind::kSeen:
    case EventKind::kNote:
    case EventKind::kNotBegun:
    case EventKind::kRestored:
    case EventKind::kArmed:
    case EventKind::kSuperseded:
    case EventKind::kStopping:
    case EventKind::kApplied:
    case EventKind::kFinished:
    case EventKind::kDrained:
    case EventKind::kWroteBack:
    case EventKind::kRecovered:
    case EventKind::kPaused:
    case EventKind::kResumed:
    case EventKind::kRotated: break;
  }
  return EventSeverity::kInfo;
}

}  // namespace stepwatch
