// What a rank tells of its job: of rank 0, of the store, and of steps that began without a decision.
#include <utility>

#include "controller/reload/plan_agreement.h"

namespace stepwatch::reload {

void PlanAgreement::LeaderIsSilent(std::chrono::milliseconds time) {
  owner_->Tell(EventKind::kDegraded,
               "no message of rank 0 arrived within " + std::to_string(time.count()) +
                   " ms. Only rank 0 reads the config file of a job with several ranks: until a monitor is attached "
                   "there too, edits reach no rank");
}

void PlanAgreement::LeaderIsForeign(const std::string& why) {
  owner_->Tell(EventKind::kDegraded, why + ". Until they do, edits reach no rank");
}

void PlanAgreement::Asked(const agree::Incarnation& session, int64_t number) {
  if (questions_) questions_->Asked(session, number);
}

void PlanAgreement::StoreChanged(const Status& status) {
  if (status.ok()) return owner_->Tell(EventKind::kRecovered, "the job's store answers again");
  owner_->Tell(EventKind::kDegraded, "the job's store does not answer (" + status.message() +
                                         "); it is retried, and until then edits reach no rank, or not all");
}

void PlanAgreement::ReportDoubt() {
  const int64_t timeouts = data_plane_->gate.timeouts();
  if (std::exchange(timeouts_told_, timeouts) == timeouts) return;
  doubt_told_ = true;
  owner_->Tell(EventKind::kDegraded,
               "a step began without the job's decision about an edit for it; the plan is "
               "unchanged, and rows are marked in doubt until the decision is known");
}

void PlanAgreement::EndDoubt() {
  if (std::exchange(doubt_told_, false)) owner_->Tell(EventKind::kRecovered, "the job's decision is known");
}

}  // namespace stepwatch::reload
