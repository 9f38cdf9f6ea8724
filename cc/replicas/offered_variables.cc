#include "cc/replicas/offered_variables.h"

#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tensorbow {

namespace tf = ::tensorflow;

namespace {

using VarPtr = tf::core::RefCountPtr<tf::Var>;

struct Offers {
  absl::Mutex mu;
  std::map<int64_t, VarPtr> by_number ABSL_GUARDED_BY(mu);
};

Offers& TheOffers() {
  static auto* const offers = new Offers;
  return *offers;
}

}  // namespace

void OfferVariable(int64_t number, VarPtr var) {
  Offers& offers = TheOffers();
  absl::MutexLock lock(&offers.mu);
  offers.by_number[number] = std::move(var);
}

VarPtr TakeOfferedVariable(int64_t number) {
  Offers& offers = TheOffers();
  absl::MutexLock lock(&offers.mu);
  const auto offer = offers.by_number.find(number);
  if (offer == offers.by_number.end()) return nullptr;
  VarPtr var = std::move(offer->second);
  offers.by_number.erase(offer);
  return var;
}

}  // namespace tensorbow
